package eval

import (
	"errors"

	"ragd/verify"
)

// errNothingToTune is what tuning commands say of results that are held out altogether.
var errNothingToTune = errors.New("eval: no question of the tuning part is in these results; the held-out part is not tuned on")

// GroundedExamples returns the tuning part of groundedness results, and the rest. Each set weighs the same, whatever its size.
func GroundedExamples(sets [][]Checked) (tune []verify.Example, heldOut []Checked, err error) {
	for _, set := range sets {
		n := 0
		for _, c := range set {
			if !c.HeldOut {
				n++
			}
		}
		for _, c := range set {
			if c.HeldOut {
				heldOut = append(heldOut, c)
				continue
			}
			tune = append(tune, verify.Example{Values: verify.Values(c.Features), True: c.Supported, Weight: 200 / float64(n)})
		}
	}
	if len(tune) == 0 {
		return nil, nil, errNothingToTune
	}
	return tune, heldOut, nil
}

// AbstentionExamples returns the tuning part of answer results: what was known of each question, and whether it can be answered.
func AbstentionExamples(sets [][]Answered) (tune []verify.Example, heldOut []Answered, err error) {
	for _, set := range sets {
		n := 0
		for i := range set {
			if !set[i].HeldOut {
				n++
			}
		}
		for i := range set {
			if set[i].HeldOut {
				heldOut = append(heldOut, set[i])
				continue
			}
			tune = append(tune, verify.Example{Values: verify.Values(set[i].Evidence), True: set[i].Answerable, Weight: 200 / float64(n)})
		}
	}
	if len(tune) == 0 {
		return nil, nil, errNothingToTune
	}
	return tune, heldOut, nil
}

// Probabilities scores examples with m.
func Probabilities(m *verify.Logistic, examples []verify.Example) []Scored {
	rows := make([]Scored, len(examples))
	for i, e := range examples {
		rows[i] = Scored{m.Probability(e.Values), e.True}
	}
	return rows
}
