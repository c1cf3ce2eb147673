package eval

import (
	"fmt"
	"math"

	"ragd/retrieve"
)

// Table is a run as numbers: for each question, the metrics that it has.
type Table struct {
	Header    Header
	Questions []string
	Metrics   map[string]map[string]float64 // metric → question → value
}

// ReadTable reads a results file of any kind as numbers.
func ReadTable(path string) (*Table, error) {
	h, err := ReadHeader(path)
	if err != nil {
		return nil, err
	}
	t := &Table{Header: h, Metrics: map[string]map[string]float64{}}
	switch h.Kind {
	case "retrieval":
		r, err := ReadResults[Searched](path)
		if err != nil {
			return nil, err
		}
		for i := range r.Records {
			s := &r.Records[i]
			ranked := s.Rank(retrieve.LegRerank, retrieve.DefaultWeights)
			t.add(s.ID, map[string]float64{"ndcg@10": NDCG(ranked, s.Gains, 10), "mrr@10": ReciprocalRank(ranked, s.Gains, 10),
				"recall@10": Recall(ranked, s.Gains, 10), "recall@100": Recall(ranked, s.Gains, 100)})
		}
	case "answers":
		r, err := ReadResults[Answered](path)
		if err != nil {
			return nil, err
		}
		for i := range r.Records {
			m := r.Records[i].Metrics
			m["decided"] = number(r.Records[i].Abstained != r.Records[i].Answerable) // answered what can be, refused what cannot
			t.add(r.Records[i].ID, m)
		}
	default:
		return nil, fmt.Errorf("eval: %s holds %q results; retrieval and answers can be compared", path, h.Kind)
	}
	return t, nil
}

func (t *Table) add(id string, metrics map[string]float64) {
	t.Questions = append(t.Questions, id)
	for name, v := range metrics {
		if t.Metrics[name] == nil {
			t.Metrics[name] = map[string]float64{}
		}
		t.Metrics[name][id] = v
	}
}

// Compared is one metric of two runs over the questions that both have.
type Compared struct {
	Metric string     `json:"metric"`
	A      float64    `json:"a"`
	B      float64    `json:"b"`
	Diff   Difference `json:"difference"`
}

// Compare compares run b with run a, question by question.
func Compare(a, b *Table) []Compared {
	var all []Compared
	for _, name := range sortedKeys(a.Metrics) {
		var x, y []float64
		for _, id := range a.Questions {
			va, inA := a.Metrics[name][id]
			vb, inB := b.Metrics[name][id]
			if inA && inB {
				x, y = append(x, va), append(y, vb)
			}
		}
		if len(x) > 0 {
			d := Paired(x, y)
			all = append(all, Compared{name, average(x), average(y), d})
		}
	}
	return all
}

func average(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// lowerIsBetter are the metrics that a regression raises.
var lowerIsBetter = map[string]bool{"false_quotes": true, "false_markers": true, "unsupported": true, "forbidden": true}

// neutral are the metrics that only describe; times depend on the machine.
var neutral = map[string]bool{"first_token_ms": true, "total_ms": true, "verify_ms": true, "prompt_tokens": true, "output_tokens": true, "quotes": true,
	"statements": true, "answered": true, "evidence": true, "corrected": true}

// Regressions returns the metrics of b that are worse than in a by more than tolerance and surely so (p < 0.05), or that must be 0 and are not.
func Regressions(compared []Compared, tolerance float64) []Compared {
	var worse []Compared
	for _, c := range compared {
		change := c.Diff.Value
		if lowerIsBetter[c.Metric] {
			change = -change
		}
		switch {
		case c.Metric == "false_quotes" || c.Metric == "false_markers":
			if c.B > 0 {
				worse = append(worse, c)
			}
		case neutral[c.Metric] || math.IsNaN(change):
		case change < -tolerance && c.Diff.P < 0.05:
			worse = append(worse, c)
		}
	}
	return worse
}
