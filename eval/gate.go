package eval

import (
	"encoding/json"
	"fmt"
	"os"
)

// Floors are what a run must reach to pass a gate: a metric's mean must not be below, or above where less is better.
type Floors struct {
	Least map[string]float64 `json:"least"`
	Most  map[string]float64 `json:"most"`
}

// ReadFloors reads a gate's file.
func ReadFloors(path string) (Floors, error) {
	var f Floors
	data, err := os.ReadFile(path)
	if err != nil {
		return f, fmt.Errorf("eval: gate: %w", err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("eval: gate: %s: %w", path, err)
	}
	return f, nil
}

// Failures says which floors a run misses. A metric that the run does not have fails, too: a gate that measures nothing would let everything pass.
func (f Floors) Failures(t *Table) []string {
	var failed []string
	check := func(name string, bound float64, holds func(v float64) bool, word string) {
		var values []float64
		for _, v := range t.Metrics[name] {
			values = append(values, v)
		}
		if v := average(values); len(values) == 0 {
			failed = append(failed, fmt.Sprintf("%s was not measured", name))
		} else if !holds(v) {
			failed = append(failed, fmt.Sprintf("%s is %.4f, %s %.4f is wanted", name, v, word, bound))
		}
	}
	for _, name := range sortedKeys(f.Least) {
		check(name, f.Least[name], func(v float64) bool { return v >= f.Least[name] }, "at least")
	}
	for _, name := range sortedKeys(f.Most) {
		check(name, f.Most[name], func(v float64) bool { return v <= f.Most[name] }, "at most")
	}
	return failed
}
