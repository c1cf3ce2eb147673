package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"ragd/eval"
)

type evalCompareCmd struct {
	A    string `arg:"" help:"Results of the run before." type:"existingfile"`
	B    string `arg:"" help:"Results of the run after." type:"existingfile"`
	JSON bool   `help:"Print JSON." name:"json"`
}

// Run compares two runs on the questions that both have.
func (k evalCompareCmd) Run(ctxBinding, *app) error {
	compared, err := compareFiles(k.A, k.B)
	if err != nil {
		return err
	}
	if k.JSON {
		return json.NewEncoder(os.Stdout).Encode(compared)
	}
	printCompared(compared)
	return nil
}

func compareFiles(before, after string) ([]eval.Compared, error) {
	a, err := eval.ReadTable(before)
	if err != nil {
		return nil, err
	}
	b, err := eval.ReadTable(after)
	if err != nil {
		return nil, err
	}
	if a.Header.Set != b.Header.Set || a.Header.Kind != b.Header.Kind {
		return nil, fmt.Errorf("%s holds %s of %s, %s holds %s of %s: only runs of one kind on one set can be compared",
			before, a.Header.Kind, a.Header.Set, after, b.Header.Kind, b.Header.Set)
	}
	compared := eval.Compare(a, b)
	if len(compared) == 0 {
		return nil, errors.New("the runs have no question in common")
	}
	return compared, nil
}

func printCompared(compared []eval.Compared) {
	fmt.Printf("%-20s %5s %9s %9s %10s %22s %7s\n", "metric", "n", "before", "after", "change", "95 % interval", "p")
	for _, c := range compared {
		mark := ""
		if c.Diff.P < 0.05 {
			mark = " *"
		}
		fmt.Printf("%-20s %5d %9.4f %9.4f %+10.4f    [%+8.4f, %+8.4f] %7.3f%s\n", c.Metric, c.Diff.N, c.A, c.B, c.Diff.Value, c.Diff.Low, c.Diff.High, c.Diff.P, mark)
	}
}

type evalGateCmd struct {
	Results   string  `arg:"" help:"Results to judge." type:"existingfile"`
	Floors    string  `help:"File with what must be reached: {\"least\":{\"ndcg@10\":0.8},\"most\":{\"false_quotes\":0}}." type:"existingfile"`
	Against   string  `help:"Results of an earlier run that must not be worse." type:"existingfile"`
	Tolerance float64 `help:"Change that counts as none." default:"0.01"`
}

// Help is shown by ragd eval gate --help.
func (evalGateCmd) Help() string {
	return `Ends with status 1 when a floor is missed, or when a metric is worse than in an earlier run by more than the tolerance and surely so (p < 0.05). A
quote that is not the source's bytes and a marker that names no passage are always a failure.

  ragd eval gate today.jsonl --against yesterday.jsonl
  ragd eval gate today.jsonl --floors floors.json`
}

// Run judges one run.
func (k evalGateCmd) Run(ctxBinding, *app) error {
	if k.Floors == "" && k.Against == "" {
		return errors.New("nothing to judge by: give --floors, --against, or both")
	}
	var failed []string
	if k.Floors != "" {
		floors, err := eval.ReadFloors(k.Floors)
		if err != nil {
			return err
		}
		table, err := eval.ReadTable(k.Results)
		if err != nil {
			return err
		}
		failed = floors.Failures(table)
	}
	if k.Against != "" {
		compared, err := compareFiles(k.Against, k.Results)
		if err != nil {
			return err
		}
		printCompared(compared)
		for _, c := range eval.Regressions(compared, k.Tolerance) {
			failed = append(failed, fmt.Sprintf("%s went from %.4f to %.4f (p = %.3f)", c.Metric, c.A, c.B, c.Diff.P))
		}
	}
	for _, f := range failed {
		fmt.Println("FAILED " + f)
	}
	if len(failed) > 0 {
		return fmt.Errorf("the gate is closed: %d of its conditions do not hold", len(failed))
	}
	fmt.Println("the gate is open")
	return nil
}
