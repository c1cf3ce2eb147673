package verify

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed model.json
var modelText []byte

// model is what [Check] decides by. Its features are of words alone: the cross-encoder's, the embedder's and a small language model's were measured and
// add nothing on held-out statements (docs/eval.md).
var model = func() (m struct {
	Logistic
	Threshold float64 `json:"threshold"` // from here a statement counts as supported; fitted on the tuning part
}) {
	if err := json.Unmarshal(modelText, &m); err != nil {
		panic(fmt.Sprintf("verify: embedded coefficients: %v", err)) // our own file: a bug
	}
	if err := m.Check(); err != nil {
		panic(err)
	}
	return m
}()

// Verdict is what [Check] says of a statement.
type Verdict struct {
	Probability float64 // that the evidence supports the statement
	Supported   bool    // the probability reaches the threshold
}

// Check judges statement by evidence.
func Check(statement string, evidence []string) Verdict {
	p := model.Probability(Values(lexical(statement, evidence)))
	return Verdict{Probability: p, Supported: p >= model.Threshold}
}
