package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ragd/eval"
	"ragd/ingest"
	"ragd/llm/distill"
	"ragd/retrieve"
)

type distillCmd struct {
	Causal    distillCausalCmd    `cmd:"" help:"Train a small model of the answer model's kind on your text."`
	Retrieval distillRetrievalCmd `cmd:"" help:"Learn from the cross-encoder how to rank the passages of a corpus."`
	List      distillListCmd      `cmd:"" help:"Show the students on this machine and which are in force."`
	Install   distillInstallCmd   `cmd:"" help:"Put a student that passed its gate in force."`
	Revert    distillRevertCmd    `cmd:"" help:"Take the last installed student out of force."`
}

func (a *app) students() distill.Registry {
	return distill.Registry{Dir: filepath.Join(a.DataDir, "students")}
}

// workDir is where a run keeps what it needs to go on after a kill.
func (a *app) workDir(name string) (string, error) {
	dir := filepath.Join(a.DataDir, "distill", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("distill: %w", err)
	}
	return dir, nil
}

type distillListCmd struct{}

func (distillListCmd) Run(a *app) error {
	all, err := a.students().List()
	if err != nil {
		return err
	}
	inForce, err := a.students().Installed()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Println("no students yet: 'ragd distill retrieval --help' says how to make one")
		return nil
	}
	for _, e := range all {
		state := "refused"
		switch {
		case inForce[e.Slot] == e.ID:
			state = "in force"
		case e.Pass:
			state = "not in force"
		}
		fmt.Printf("%-28s %-13s %s\n%-28s %-13s %s\n", e.ID, state, e.Slot, "", "", e.Gain)
	}
	return nil
}

type distillInstallCmd struct {
	ID string `arg:"" help:"An id from 'ragd distill list'."`
}

func (k distillInstallCmd) Run(a *app) error {
	all, err := a.students().List()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e distill.Entry) bool { return e.ID == k.ID })
	if i < 0 {
		return fmt.Errorf("there is no student %q: 'ragd distill list' shows them", k.ID)
	}
	return a.install(all[i])
}

// install puts a student in force, if its held-out measurement says that it gains.
func (a *app) install(e distill.Entry) error {
	if !e.Pass {
		return fmt.Errorf("student %s is not installed: %s", e.ID, e.Gain)
	}
	if err := a.students().Install(e.ID); err != nil {
		return err
	}
	fmt.Printf("in force: %s for %s; 'ragd distill revert %s' takes it back\n", e.ID, e.Slot, e.Slot)
	return nil
}

type distillRevertCmd struct {
	Slot string `arg:"" optional:"" help:"What the student is in force for, as 'ragd distill list' shows it. Needed when several are."`
}

func (k distillRevertCmd) Run(a *app) error {
	if k.Slot == "" {
		inForce, err := a.students().Installed()
		if err != nil {
			return err
		}
		if len(inForce) != 1 {
			return fmt.Errorf("%d students are in force: say which, as 'ragd distill list' shows them", len(inForce))
		}
		for slot := range inForce {
			k.Slot = slot
		}
	}
	was, now, err := a.students().Revert(k.Slot)
	if err != nil {
		return err
	}
	if now == "" {
		now = "the untrained way"
	}
	fmt.Printf("%s: %s is out of force, %s is in force again\n", k.Slot, was, now)
	return nil
}

// documentTexts reads the texts to learn from: documents of corpora, files of any format that ragd reads, and the passages of corpus.jsonl files.
func (a *app) documentTexts(ctx context.Context, corpora, paths []string) ([]string, error) {
	var texts []string
	if len(corpora) > 0 {
		db, err := a.openStore(ctx)
		if err != nil {
			return nil, err
		}
		for after := retrieve.DocumentID(0); ; {
			page, err := db.Documents(ctx, "", corpora, ingest.Live, after, 100)
			if err != nil {
				return nil, err
			}
			for _, d := range page {
				text, err := db.Text(ctx, "", d.ID)
				if err != nil {
					return nil, err
				}
				texts, after = append(texts, text.Text), d.ID
			}
			if len(page) < 100 {
				break
			}
		}
	}
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || path != root && strings.HasPrefix(d.Name(), ".") {
				return err
			}
			if d.Name() == "corpus.jsonl" {
				passages, err := eval.ReadCorpus(path)
				for _, p := range passages {
					texts = append(texts, p.Title+"\n"+p.Text)
				}
				return err
			}
			document, err := ingest.ParseFile(ctx, path, ingest.Limits{})
			var unreadable *ingest.Error
			if errors.As(err, &unreadable) {
				a.progress.step("  left out: %v", err)
				return nil
			}
			if err != nil {
				return err
			}
			texts = append(texts, document.Text)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("distill: read text: %w", err)
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("no text to learn from: name files, folders or --corpus")
	}
	return texts, nil
}
