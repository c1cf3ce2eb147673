package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"ragd/ingest"
	"ragd/store"
)

type ingestExplainCmd struct {
	corpusFlag
	File string `arg:"" help:"A file on this machine, or the path or id of an ingested document."`
}

// Run shows what was read and how it was split.
func (k ingestExplainCmd) Run(ctx ctxBinding, a *app) error {
	if info, err := os.Stat(k.File); err == nil && info.Mode().IsRegular() {
		return k.local(ctx, a)
	}
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	d, err := findDocument(ctx, db, k.Corpus, k.File)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%s is neither a file here nor a document of corpus %q: %w", k.File, k.Corpus, err)
	}
	if err != nil {
		return err
	}
	return explainStored(ctx, db, d)
}

// local reads and splits a file as an ingestion would, and stores nothing.
func (k ingestExplainCmd) local(ctx context.Context, a *app) error {
	d, err := ingest.ParseFile(ctx, k.File, a.limits())
	var refused *ingest.Error
	if errors.As(err, &refused) {
		fmt.Printf("%s cannot be ingested: %s (%s)\n", k.File, refused.Message, refused.Class)
		return nil
	}
	if err != nil {
		return err
	}
	embedder, err := a.openEmbedder(ctx)
	if err != nil {
		return err
	}
	s := splitter(embedder)
	explainDocument(k.File, d, s.Split(d))
	fmt.Printf("\nsplit for %s, %s\n", embedder.Model(), s.Fingerprint())
	return nil
}

// explainStored shows the live version of a document, and why there is none or a newer one is not live.
func explainStored(ctx context.Context, db *store.Store, d store.Document) error {
	fmt.Printf("document %d of corpus %s: newest version is %s, %d bytes, sha256 %s\n", d.ID, d.Corpus, d.State, d.Size, d.SHA256)
	if d.Error != "" {
		fmt.Printf("  %s (%s)\n", d.Error, d.ErrorClass)
	}
	if !d.Live {
		return nil
	}
	text, err := db.Text(ctx, "", d.ID)
	if err != nil {
		return err
	}
	passages, err := db.LivePassages(ctx, "", d.ID)
	if err != nil {
		return err
	}
	explainDocument(d.Path, &ingest.Document{Kind: d.Kind, Title: d.Title, Language: d.Language, Text: text.Text, Pages: text.Pages, Blocks: text.Blocks, Warnings: d.Warnings}, passages)
	return nil
}

// explainDocument prints a document page by page with its passages.
func explainDocument(name string, d *ingest.Document, passages []ingest.Passage) {
	fmt.Printf("%s: %s, %q, language %q, %d bytes of text, %d pages, %d passages\n", shown(name), d.Kind, d.Title, d.Language, len(d.Text), len(d.Pages), len(passages))
	for _, w := range d.Warnings {
		fmt.Printf("warning: %s\n", w)
	}
	var found []string
	for _, p := range passages {
		found = append(found, p.Personal...)
	}
	if slices.Sort(found); len(found) > 0 {
		fmt.Printf("personal data: %s\n", strings.Join(slices.Compact(found), ", "))
	}
	next := 0
	for _, page := range d.Pages {
		fmt.Printf("\n=== %s: bytes [%d,%d), %s\n", pageName(page), page.Start, page.End, blocksOf(d, page))
		for ; next < len(passages) && passages[next].Start < page.End; next++ {
			p := passages[next]
			fmt.Printf("--- passage %d: bytes [%d,%d), %d tokens", next, p.Start, p.End, p.Tokens)
			if p.Heading != "" {
				fmt.Printf(", under %q", p.Heading)
			}
			if len(p.Personal) > 0 {
				fmt.Printf(", personal data: %s", strings.Join(p.Personal, ", "))
			}
			fmt.Printf("\n    %s\n", strings.ReplaceAll(p.Text, "\n", "\n    "))
		}
	}
}

func pageName(p ingest.Page) string {
	if p.Number == 0 {
		return "no pages"
	}
	if p.OCR {
		return fmt.Sprintf("page %d (read by OCR)", p.Number)
	}
	return fmt.Sprintf("page %d", p.Number)
}

// blocksOf counts what a page is made of.
func blocksOf(d *ingest.Document, page ingest.Page) string {
	counts := make(map[ingest.BlockKind]int)
	var kinds []ingest.BlockKind
	for _, b := range d.Blocks {
		if b.Start < page.Start || b.Start >= page.End {
			continue
		}
		if counts[b.Kind]++; counts[b.Kind] == 1 {
			kinds = append(kinds, b.Kind)
		}
	}
	parts := make([]string, len(kinds))
	for i, kind := range kinds {
		parts[i] = fmt.Sprintf("%d %v", counts[kind], kind)
	}
	if len(parts) == 0 {
		return "no text"
	}
	return strings.Join(parts, ", ")
}
