package verify

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed models.json
var modelsText []byte

// Models are the coefficients in use: one model for each combination of helpers.
type Models struct {
	Words    Logistic `json:"words"`    // no helper
	Encoders Logistic `json:"encoders"` // cross-encoder and embedder
	Full     Logistic `json:"full"`     // and a language model
	// Threshold is the probability from which a statement counts as supported, fitted on the tuning part.
	Threshold map[string]float64 `json:"threshold"`
}

// models are read once, when the program starts: a file of our own that does not hold is a bug.
var models = func() *Models {
	m := &Models{}
	if err := json.Unmarshal(modelsText, m); err != nil {
		panic(fmt.Sprintf("verify: embedded coefficients: %v", err))
	}
	for _, l := range []*Logistic{&m.Words, &m.Encoders, &m.Full} {
		if err := l.Check(); err != nil {
			panic(err)
		}
	}
	return m
}()

// Verdict is what a [Checker] says of a statement.
type Verdict struct {
	Probability float64 // that the evidence supports the statement
	Supported   bool    // the probability reaches the threshold of the helpers that were asked
	Features    Features
}

// Check judges statement by evidence.
func (c *Checker) Check(ctx context.Context, statement string, evidence []string, question string) (Verdict, error) {
	f, err := c.Measure(ctx, statement, evidence, question)
	if err != nil {
		return Verdict{}, err
	}
	name, model := "words", &models.Words
	switch {
	case c.Language != nil && c.Cross != nil && c.Embedder != nil:
		name, model = "full", &models.Full
	case c.Cross != nil && c.Embedder != nil:
		name, model = "encoders", &models.Encoders
	}
	p := model.Probability(Values(f))
	return Verdict{Probability: p, Supported: p >= models.Threshold[name], Features: f}, nil
}
