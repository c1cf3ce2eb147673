package eval

import (
	"encoding/json"
	"fmt"
	"strings"
)

// given is a row of a set whose questions come with their passages: {"question","contexts":[{"id","text"}],"label":"answerable|unanswerable"}, or
// with the passages that hold the answer and those that do not apart: {"question","answer","positive":[],"negative":[]}.
type given struct {
	ID       string          `json:"id"`
	Lang     string          `json:"lang"`
	Question string          `json:"question"`
	Contexts []Passage       `json:"contexts"`
	Label    string          `json:"label"`
	Answer   json.RawMessage `json:"answer"`
	Positive []string        `json:"positive"`
	Negative []string        `json:"negative"`
}

// Passages of a question whose answer is there: two that hold it among three that do not; whose answer is not: five that do not.
const givenRight, givenWrong, givenOnlyWrong = 2, 3, 5

// LoadGiven reads a set that is one file. A row with passages apart gives two questions: one that can be answered and one that cannot.
func LoadGiven(path string) (*Dataset, error) {
	rows, err := readJSONLines[given](path)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Name: SetName(path), Dir: path, Gains: map[string]map[string]float64{}}
	for i := range rows {
		r := &rows[i]
		var answers []string
		if len(r.Answer) > 0 {
			if answers, err = answersOf(r.Answer); err != nil {
				return nil, fmt.Errorf("eval: %s, row %s: %w", path, r.ID, err)
			}
		}
		if len(r.Contexts) > 0 {
			answerable := r.Label == "answerable"
			d.Queries = append(d.Queries, Query{ID: r.ID, Text: r.Question, Answers: answers, Answerable: &answerable, Given: r.Contexts})
			continue
		}
		yes, no := true, false
		right, wrong := r.Positive[:min(givenRight, len(r.Positive))], r.Negative[:min(givenWrong, len(r.Negative))]
		d.Queries = append(d.Queries,
			Query{ID: r.ID + "+", Of: r.ID, Text: r.Question, Answers: answers, Answerable: &yes, Given: passages(append(append([]string{}, wrong...), right...))},
			Query{ID: r.ID + "-", Of: r.ID, Text: r.Question, Answerable: &no, Given: passages(r.Negative[:min(givenOnlyWrong, len(r.Negative))])})
	}
	return d, nil
}

// answersOf reads one answer, or the ways to write it, in lists of any depth.
func answersOf(raw json.RawMessage) ([]string, error) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var many []json.RawMessage
	if err := json.Unmarshal(raw, &many); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	var all []string
	for _, m := range many {
		answers, err := answersOf(m)
		if err != nil {
			return nil, err
		}
		all = append(all, answers...)
	}
	return all, nil
}

func passages(texts []string) []Passage {
	all := []Passage{}
	for i, t := range texts {
		all = append(all, Passage{ID: fmt.Sprint(i + 1), Text: strings.TrimSpace(t)})
	}
	return all
}
