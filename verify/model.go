package verify

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
)

//go:embed model.json
var modelText []byte

// checker is a logistic model with the probabilities from which a statement counts as supported, and as surely supported; how they were chosen is in
// docs/eval.md.
type checker struct {
	Logistic
	Threshold float64 `json:"threshold"`
	Sure      float64 `json:"sure"`
}

// models are what [Check] and [CheckAsked] decide by. Cross-encoder and embedder were measured and add nothing on held-out statements.
var models = func() (m struct {
	Words checker `json:"words"` // of words alone
	Asked checker `json:"asked"` // of what Words says and of what a language model says
}) {
	if err := json.Unmarshal(modelText, &m); err != nil {
		panic(fmt.Sprintf("verify: embedded coefficients: %v", err)) // our own file: a bug
	}
	for _, c := range []*checker{&m.Words, &m.Asked} {
		if err := c.Check(); err != nil {
			panic(err)
		}
	}
	return m
}()

// Verdict is what [Check] says of a statement.
type Verdict struct {
	Probability float64 // that the evidence supports the statement
	Supported   bool    // the probability reaches the threshold
	Sure        bool    // and the one above which few statements are wrong; between them it is doubtful
}

func (c *checker) verdict(f Features) Verdict {
	p := c.Probability(Values(f))
	return Verdict{Probability: p, Supported: p >= c.Threshold, Sure: p >= max(c.Sure, c.Threshold)}
}

// Check judges statement by the words of evidence.
func Check(statement string, evidence []string) Verdict {
	return models.Words.verdict(lexical(statement, evidence))
}

// CheckAsked judges statement by the words of evidence and by the log-odds with which a language model says that the evidence states it. Words that are
// all there can be put together wrongly; a model that has read the evidence notices more often than not.
func CheckAsked(statement string, evidence []string, stated float64) Verdict {
	return models.Asked.verdict(Features{Checked: checked(lexical(statement, evidence)), Stated: stated})
}

// checked is the log-odds by the words that a statement is supported.
func checked(f Features) float64 {
	p := models.Words.Probability(Values(f))
	return math.Log(p / (1 - p))
}
