package sample

import (
	"fmt"
	"math"
)

// Params says how a token is chosen. The zero value is greedy decoding: the highest logit, ties to the lowest id.
type Params struct {
	Temperature float32 // 0: greedy. 1: the model's own distribution
	TopK        int     // keep the k most probable tokens; 0: all
	TopP        float32 // keep the smallest set of tokens whose mass reaches p; 0 or 1: all
	MinP        float32 // keep tokens at least p times as probable as the best; 0: all
	Seed        uint64  // with the position of a token, the only source of randomness

	// Penalties count generated tokens only: penalising prompt tokens punishes faithful quoting.
	RepetitionPenalty float32 // >1 discourages; divides positive and multiplies negative logits; 0 or 1: off
	PresencePenalty   float32 // subtracted once from tokens already generated
	FrequencyPenalty  float32 // subtracted once per earlier occurrence

	LogitBias map[int32]float32 // added to the raw logits; -100 or less practically bans a token
}

// Nucleus sets TopP as requests state it: nil keeps all, and 0, the smallest set there is, keeps the most probable token alone, which is greedy decoding.
func (p *Params) Nucleus(topP *float32) {
	switch {
	case topP == nil:
		p.TopP = 0
	case *topP == 0:
		p.TopP, p.Temperature = 0, 0
	default:
		p.TopP = *topP
	}
}

// Greedy reports whether the choice needs no random number.
func (p Params) Greedy() bool { return p.Temperature < minTemperature }

// Penalises reports whether earlier tokens change the choice.
func (p Params) Penalises() bool {
	return p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1 || p.PresencePenalty != 0 || p.FrequencyPenalty != 0
}

// minTemperature is the temperature below which dividing by it only loses precision; vLLM uses the same bound.
const minTemperature = 1e-5

// Validate names the first parameter that is out of range.
func (p Params) Validate() error {
	type bound struct {
		name     string
		v        float32
		min, max float32
	}
	for _, b := range []bound{
		{"temperature", p.Temperature, 0, 100},
		{"top_p", p.TopP, 0, 1},
		{"min_p", p.MinP, 0, 1},
		{"repetition_penalty", p.RepetitionPenalty, 0, 100},
		{"presence_penalty", p.PresencePenalty, -100, 100},
		{"frequency_penalty", p.FrequencyPenalty, -100, 100},
		{"top_k", float32(p.TopK), 0, math.MaxInt32},
	} {
		if !(b.v >= b.min && b.v <= b.max) { // also catches NaN
			return fmt.Errorf("sample: %s is %v; it must be between %v and %v", b.name, b.v, b.min, b.max)
		}
	}
	for id, v := range p.LogitBias {
		if v != v || math.IsInf(float64(v), 1) {
			return fmt.Errorf("sample: logit bias of token %d is %v; it must be a number", id, v)
		}
	}
	return nil
}
