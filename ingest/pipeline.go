package ingest

import (
	"context"
	"log/slog"

	"ragd/embed"
)

// Pipeline takes files into a corpus: walk, hash, parse, split, embed, publish.
type Pipeline struct {
	Store    Store
	Embedder embed.Embedder
	Splitter *Splitter
	Limits   Limits
	Workers  int // documents parsed at once; default: one per core, at most 4
	Logger   *slog.Logger
}

// Progress is a truthful count: Known grows while folders are still being read.
type Progress struct {
	Walking                    bool   // Known may still grow
	Path                       string // the document this event is about, "" for a total
	State                      State  // its new state
	Documents, DocumentsKnown  int
	Passages, PassagesKnown    int // embedded, and split so far
	Skipped, Unchanged, Failed int
}

// Report is what one Run did.
type Report struct {
	Documents int // became live in this run
	Passages  int // of those documents
	Unchanged int
	Skipped   []Note
	Failed    []Note
}

// Note is a file that was left out, and why.
type Note struct {
	Path   string
	Class  Class // "" for a skipped file
	Reason string
	Next   string // what the user can do
}

// Run takes the files under paths into corpus.
func (p *Pipeline) Run(ctx context.Context, tenant, corpus string, paths []string, progress func(Progress)) (Report, error) {
	return Report{}, nil
}
