package eval

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ragd/embed"
	"ragd/ingest"
)

// lease is how long a version of the scratch corpus stays ours between two saves; embedding a passage takes milliseconds.
const lease = 10 * time.Minute

// indexers is how many passages are on their way at a time: most of a passage's time is the database's, and the embedder's would lie idle.
const indexers = 4

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
	passages := make(map[string]Passage, len(d.Corpus))
	var queued atomic.Int64
	receiving, inside := errgroup.WithContext(ctx)
	receiving.SetLimit(indexers)
	for _, p := range d.Corpus {
		passages[p.ID] = p
		receiving.Go(func() error {
			content := p.Title + "\n" + p.Text
			var tags []string
			if p.Lang != "" {
				tags = []string{"lang:" + p.Lang}
			}
			outcome, _, err := x.Store.Receive(inside, ingest.Candidate{
				Source: ingest.Source{Tenant: Tenant, Corpus: corpus, Path: p.ID},
				SHA256: sha256.Sum256([]byte(content)), Size: int64(len(content)), Tags: tags, Index: index,
			}, strings.NewReader(content))
			if err != nil {
				return fmt.Errorf("eval: store passage %s: %w", p.ID, err)
			}
			if outcome == ingest.Queued {
				queued.Add(1)
			}
			return nil
		})
	}
	if err := receiving.Wait(); err != nil {
		return err
	}
	var done atomic.Int64
	indexing, inside := errgroup.WithContext(ctx)
	for range indexers {
		indexing.Go(func() error {
			for {
				job, err := x.Store.Claim(inside, Tenant, corpus, index, lease)
				if err != nil {
					return fmt.Errorf("eval: claim: %w", err)
				}
				if job == nil {
					return nil
				}
				if err := x.publish(inside, job, passages[job.Path]); err != nil {
					return fmt.Errorf("eval: index passage %s: %w", job.Path, err)
				}
				if n := done.Add(1); x.Progress != nil {
					x.Progress(int(n), int(queued.Load()))
				}
			}
		})
	}
	return indexing.Wait()
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
