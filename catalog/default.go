package catalog

import "fmt"

// Set is a choice of models that work together, by name.
type Set struct{ Answer, Embed, Rerank string }

const gib = 1 << 30

// Default chooses models for a machine with memory bytes available and so many cores, and says why.
//
// The thresholds: the 1.5B model takes 1.1 GB of weights, about as much again while they are repacked, and its
// conversation cache; below 6 GiB there would be too little left for the encoders and the database. On a single core it
// reads a prompt of passages too slowly to be pleasant. Below 2 GiB only the smallest model fits; it answers poorly.
func Default(memory int64, cores int) (Set, string) {
	s := Set{Embed: "bge-small-en-v1.5-int8", Rerank: "ms-marco-MiniLM-L12-int8"}
	have := fmt.Sprintf("%.1f GiB of memory and %d cores are available", float64(memory)/gib, cores)
	switch {
	case memory < 2*gib:
		s.Answer = "SmolLM2-135M-Instruct.Q4_1"
		return s, have + ": the smallest model, because the larger ones need at least 2 GiB; expect weak answers"
	case memory < 6*gib:
		s.Answer = "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M"
		return s, have + ": the 0.5B model, because the 1.5B model needs 6 GiB"
	case cores < 2:
		s.Answer = "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M"
		return s, have + ": the 0.5B model, because the 1.5B model is slow on one core"
	}
	s.Answer = "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M"
	return s, have + ": the 1.5B model, which answers best of those offered"
}
