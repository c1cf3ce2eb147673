package eval

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"ragd/embed"
	"ragd/ingest"
)

// lease is how long a version of the scratch corpus stays ours between two saves; embedding a passage takes milliseconds.
const lease = 10 * time.Minute

// Indexer puts a set's passages into a scratch corpus, through the same states as files.
type Indexer struct {
	Store    ingest.Store
	Splitter *ingest.Splitter
	Embedder embed.Embedder
	Progress func(done, total int)
}

// Tenant owns the scratch corpora, apart from the user's own.
const Tenant = "eval"

// Index makes every passage of d live in corpus; what is there already, made the same way, stays. A passage's path is its id in the set; its language
// becomes the tag "lang:xx".
func (x *Indexer) Index(ctx context.Context, d *Dataset, corpus string) error {
	index := ingest.Index{Model: x.Embedder.Model(), Dim: x.Embedder.Dim(), Splitter: x.Splitter.Fingerprint()}
	queued := 0
	passages := map[string]Passage{}
	for _, p := range d.Corpus {
		content := p.Title + "\n" + p.Text
		passages[p.ID] = p
		var tags []string
		if p.Lang != "" {
			tags = []string{"lang:" + p.Lang}
		}
		outcome, _, err := x.Store.Receive(ctx, ingest.Candidate{
			Source: ingest.Source{Tenant: Tenant, Corpus: corpus, Path: p.ID},
			SHA256: sha256.Sum256([]byte(content)), Size: int64(len(content)), Tags: tags, Index: index,
		}, strings.NewReader(content))
		if err != nil {
			return fmt.Errorf("eval: store passage %s: %w", p.ID, err)
		}
		if outcome == ingest.Queued {
			queued++
		}
	}
	for done := 0; ; done++ {
		job, err := x.Store.Claim(ctx, Tenant, corpus, index, lease)
		if err != nil {
			return fmt.Errorf("eval: claim: %w", err)
		}
		if job == nil {
			return nil
		}
		if err := x.publish(ctx, job, passages[job.Path]); err != nil {
			return fmt.Errorf("eval: index passage %s: %w", job.Path, err)
		}
		if x.Progress != nil {
			x.Progress(done+1, queued)
		}
	}
}

// publish takes one passage of the set from received to live.
func (x *Indexer) publish(ctx context.Context, job *ingest.Job, p Passage) error {
	doc := &ingest.Document{
		Kind: "txt", Title: p.Title, Language: p.Lang, Text: p.Text,
		Pages:  []ingest.Page{{End: len(p.Text)}},
		Blocks: []ingest.Block{{Kind: ingest.Paragraph, End: len(p.Text)}},
	}
	if err := x.Store.SaveDocument(ctx, job, doc); err != nil {
		return err
	}
	split := x.Splitter.Split(doc)
	if err := x.Store.SavePassages(ctx, job, split); err != nil {
		return err
	}
	texts, seqs := make([]string, len(split)), make([]int, len(split))
	for i := range split {
		texts[i], seqs[i] = split[i].Indexed(), i
	}
	vectors, err := x.Embedder.Embed(ctx, embed.Passage, texts)
	if err != nil {
		return err
	}
	if err := x.Store.SaveVectors(ctx, job, seqs, vectors); err != nil {
		return err
	}
	return x.Store.Publish(ctx, job)
}
