package distill

import "ragd/llm/kernel"

// Quality is how a student does on held-out text. Cross-entropies are in nats per token over the whole vocabulary; Teacher's is its own entropy, which
// Soft cannot go below.
type Quality struct {
	Tokens  int     `json:"tokens"`
	Hard    float64 `json:"hard"`    // to the text
	Soft    float64 `json:"soft"`    // to the teacher's distribution at temperature 1
	Entropy float64 `json:"entropy"` // of the teacher
	Greedy  float64 `json:"greedy"`  // share of tokens where both find the same one most probable: drafts accepted under greedy decoding
	Sampled float64 `json:"sampled"` // mean of Σ min(p, q): drafts accepted under sampling at temperature 1; tokens of the shared row count as none
}

// Measure runs a student over the held-out windows of t. labels are those of t.Heldout at temperature 1.
func Measure(p *kernel.Pool, m *Student, t *Text, labels *Labels) (Quality, error) {
	const batch = 4
	var q Quality
	a := newPass(m, p, batch)
	defer a.close()
	n, c := t.Context, t.Classes()
	inputs, next := make([]int32, batch*n), make([]int32, batch*n)
	probs, entropy, best := make([]float32, n*c), make([]float32, n), make([]int32, n)
	tmp := make([]float32, c)
	o := Objective{Temperature: 1, Soft: 1}
	for first := 0; first < len(t.Heldout); first += batch {
		take := min(batch, len(t.Heldout)-first)
		for b := range take {
			t.fill(t.Heldout[first+b], inputs[b*n:], next[b*n:])
		}
		a.Forward(inputs)
		for b := range take {
			if err := labels.Read(first+b, probs, entropy, best); err != nil {
				return q, err
			}
			for i := range n {
				z, teacher := a.Logits[(b*n+i)*c:][:c], probs[i*c:][:c]
				soft, hard := o.row(z, teacher, next[b*n+i], t.Shared, 1, nil, tmp)
				q.Soft, q.Hard, q.Entropy = q.Soft+soft, q.Hard+hard, q.Entropy+float64(entropy[i])
				if best[i] >= 0 && kernel.ArgMax(z) == int(best[i]) {
					q.Greedy++
				}
				for j, v := range tmp[:c-1] {
					q.Sampled += float64(min(v, teacher[j]))
				}
				q.Tokens++
			}
		}
	}
	for _, v := range []*float64{&q.Hard, &q.Soft, &q.Entropy, &q.Greedy, &q.Sampled} {
		*v /= float64(q.Tokens)
	}
	return q, nil
}
