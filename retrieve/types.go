package retrieve

import (
	"context"
	"strings"
	"time"

	"ragd/embed"
)

// PassageID names a stored passage. Ids grow in the order in which passages were stored and are never used again.
type PassageID int64

// DocumentID names a logical document: one path of one corpus, whatever its versions.
type DocumentID int64

// Hit is a passage found by one leg.
type Hit struct {
	ID    PassageID
	Score float64 // higher is better; the unit is the leg's own (cosine similarity, BM25)
	Rank  int     // 1-based in its leg
}

// Passage is a stored passage with what is needed to cite it.
type Passage struct {
	ID           PassageID
	Document     DocumentID
	Corpus, Path string
	Title        string // of the document
	Text         string // what may be quoted: bytes [Start,End) of the document's normalised text
	Heading      string // path of headings over it, "Handbook > Leave"
	Start, End   int    // bytes in the document's normalised text
	Page         int    // 1-based; 0 in documents without pages
}

// ForRanking is the text that a cross-encoder reads: where the passage stands, then the passage. It is not to be quoted.
func (p *Passage) ForRanking() string {
	var b strings.Builder
	for _, s := range []string{p.Title, p.Heading} {
		if s != "" {
			b.WriteString(s)
			b.WriteByte('\n')
		}
	}
	b.WriteString(p.Text)
	return b.String()
}

// Filter says which passages a question may see. Every field narrows; a zero field does not, except Tenant, which is always in force.
type Filter struct {
	Tenant       string   // "" is the tenant "default" of an installation without tenants
	Corpora      []string // names
	Documents    []DocumentID
	PathPrefix   string
	Tags         []string  // a document needs one of them
	Languages    []string  // ISO 639-1, of the passage
	Since, Until time.Time // of the document's last change, [Since, Until)
	Model        string    // embedding model of a question's vector: corpora of another are refused; "": not checked
}

// Index is a searchable collection of passages; package store implements it on Postgres, [ragd/retrieve/indextest] holds the conformance suite and
// an implementation in memory. Safe for concurrent use.
type Index interface {
	// Dense returns the k passages admitted by f whose vectors are nearest to q: fewer only when f admits fewer. Score is the cosine similarity.
	// It is an error when q's length is not the dimension of a corpus that f selects.
	Dense(ctx context.Context, q embed.Vector, k int, f Filter) ([]Hit, error)
	// Lexical returns at most k passages admitted by f that share a term with q, by BM25 with the statistics of the corpora that f selects ; where
	// it names languages, of the passages that it admits.
	Lexical(ctx context.Context, q string, k int, f Filter) ([]Hit, error)
	// Passages returns the passages of ids, in that order, of which f's tenant and corpora admit the document; unknown ids are left out.
	Passages(ctx context.Context, ids []PassageID, f Filter) ([]Passage, error)
}

// Snapshotter is an Index that can hold still: every call on the Index that fn is given sees the same state of the corpus, whatever is ingested
// or deleted meanwhile. That Index is valid until fn returns, and its calls take turns.
type Snapshotter interface {
	Snapshot(ctx context.Context, fn func(Index) error) error
}
