package ingest

import (
	"context"
	"fmt"
	"io"
	"time"

	"ragd/embed"
)

// State is how far a document version has come. States only grow; Live and
// Failed are final until a new Receive.
type State string

// The states of a document version. What the store holds in each:
const (
	Received State = "received" // the file's bytes
	Parsed   State = "parsed"   // + Document
	Split    State = "split"    // + all passages; vectors arrive in any number of SaveVectors
	Embedded State = "embedded" // + a vector for every passage
	Ready    State = "ready"    // as Embedded, made for an index that the corpus does not have yet; goes live with it
	Live     State = "live"     // visible to retrieval
	Retired  State = "retired"  // was Live; can still be cited
	Failed   State = "failed"   // class and message; deletable and retryable like any other
)

// Source names a document: one path in one corpus of one tenant.
type Source struct {
	Tenant, Corpus string
	Path           string // slash-separated, as shown in citations
}

// Candidate is a file offered to the store.
type Candidate struct {
	Source
	SHA256   [32]byte // of the bytes
	Size     int64
	Modified time.Time // zero if unknown
	Tags     []string
	Index    Index // how it will be indexed
	// Origin is where the file is, for one that can move: an absolute place. Gone reports whether nothing is at an origin any more. A new path
	// with the bytes of a document whose file is gone is that document, moved. nil: nothing is known to be gone.
	Origin string
	Gone   func(origin string) bool
}

// Index identifies what a corpus's passages are made with. Text split or
// embedded differently must never be searched together.
type Index struct {
	Model    string // embed.Embedder.Model
	Dim      int
	Splitter string // Splitter.Fingerprint
}

// Mismatch is the error of a corpus that is made with i, met by a pipeline that makes other. It wraps ErrIndexMismatch and reads on after the corpus's name.
func (i Index) Mismatch(other Index) error {
	return fmt.Errorf("is made with embedding model %s (%d dimensions) and splitter %q, not with %s (%d) and %q: change it with 'ragd ingest migrate-model --embed %[4]s', "+
		"work with its own model (--embedder %[1]s), or use another corpus: %[7]w", i.Model, i.Dim, i.Splitter, other.Model, other.Dim, other.Splitter, ErrIndexMismatch)
}

// Outcome of Receive.
type Outcome uint8

// The outcomes of Receive.
const (
	Queued    Outcome = iota // a version waits to be worked on (new, resumed, or failed before and retried)
	Unchanged                // the live version has the same bytes, made with the same Index
	Moved                    // as Unchanged, and the document was known by a path that is gone
)

// Placed is a document and where its file is.
type Placed struct{ Path, Origin string }

// Preview is what would become of a candidate.
type Preview struct {
	Outcome Outcome
	Known   bool   // the path has a document already
	From    string // its path before, for Moved
}

// Shadow counts the versions of a corpus that are made for its next index.
type Shadow struct {
	Documents int // live ones
	Ready     int
}

// Job is a version on which this worker holds a lease.
type Job struct {
	Version int64
	Lease   int64 // fencing token: grows with every Claim of the version
	State   State
	Attempt int // Claims since Receive or since the state last grew, this one included
	Source
	SHA256 [32]byte
	Size   int64
	Index  Index
}

// Pending is a stored passage that has no vector yet.
type Pending struct {
	Seq  int    // position in the document's passages, from 0
	Text string // Passage.Indexed()
}

// Failure is what Fail records.
type Failure struct {
	Class   Class
	Message string
	Retry   time.Duration // > 0: transient: the version keeps its state and may be claimed again after this time
}

// Store is the durable half of the pipeline: a state machine per document
// version, a lease per version, atomic switches. package store implements it on
// Postgres; memStore in the tests implements it in memory.
//
// Each method is one transaction. Every method with a *Job checks, in that
// transaction, that job.Lease is the version's current lease, and returns
// ErrLeaseLost (wrapped) when it is not. Each Save is idempotent: saving again
// what a killed worker had saved replaces it. Save methods advance job.State.
type Store interface {
	// Index is how a corpus is made; the zero Index when there is no such corpus.
	Index(ctx context.Context, tenant, corpus string) (Index, error)

	// Receive records that source c has these bytes. content is read only when
	// the store doesn't hold bytes with that hash. A pending version of the source
	// with the same hash and Index keeps its state and work, and its attempts count
	// anew, because somebody asks for it again; one with other bytes is superseded
	// (its lease is lost). A failed version with the same hash starts again. An Index other than the corpus's own is
	// ErrIndexMismatch (wrapped), and the error names both.
	Receive(ctx context.Context, c Candidate, content io.Reader) (Outcome, int64, error)

	// Status says where a version is, and why it failed if it did. ErrLeaseLost
	// (wrapped) when the version no longer exists.
	Status(ctx context.Context, tenant string, version int64) (State, Failure, error)

	// Origins lists the documents of a corpus whose Origin begins with prefix.
	Origins(ctx context.Context, tenant, corpus, prefix string) ([]Placed, error)
	// Remove deletes a document in whatever state it is, with all that was made of it. No document at the path is no error.
	Remove(ctx context.Context, tenant, corpus, path string) error

	// Preview says what Receive would do, and does nothing.
	Preview(ctx context.Context, c Candidate) (Preview, error)

	// Claim leases a version made for index that is in work (Received to Embedded),
	// whose lease is free or expired, whose retry time has come: the oldest. nil,
	// nil: nothing to do. tenant and corpus select; "" is any.
	Claim(ctx context.Context, tenant, corpus string, index Index, lease time.Duration) (*Job, error)

	// Extend prolongs the lease: a worker calls it at a third of the lease.
	Extend(ctx context.Context, job *Job, lease time.Duration) error

	// Content gives the bytes that were received.
	Content(ctx context.Context, job *Job) (io.ReadCloser, error)
	// Document gives what SaveDocument stored (state Parsed and later).
	Document(ctx context.Context, job *Job) (*Document, error)
	// Pending gives the passages without a vector, in order (state Split and later).
	Pending(ctx context.Context, job *Job) ([]Pending, error)

	SaveDocument(ctx context.Context, job *Job, d *Document) error                  // -> Parsed
	SavePassages(ctx context.Context, job *Job, ps []Passage) error                 // -> Split, replaces any earlier passages of the version
	SaveVectors(ctx context.Context, job *Job, seqs []int, vs []embed.Vector) error // vs[i] belongs to passage seqs[i]; -> Embedded when none is left

	// Publish makes the version live and retires the source's previous live
	// version, in one transaction: a reader sees the old or the new, never both,
	// never half. It is an error while a passage lacks its vector. A version made for
	// an index that the corpus does not have becomes Ready instead.
	Publish(ctx context.Context, job *Job) error

	// Shadow queues, for every live document of a corpus, a version of the same bytes
	// made for another index, unless there is one that has not failed; versions for
	// any third index are dropped. The live ones stay as they are.
	Shadow(ctx context.Context, tenant, corpus string, to Index) (Shadow, error)
	// Switch gives a corpus another index: its Ready versions become live and the
	// others retire, versions in work start anew, all in one transaction. It does
	// nothing and returns false while a live document has no Ready version of its bytes.
	Switch(ctx context.Context, tenant, corpus string, to Index) (bool, error)

	// Fail records the failure and gives the lease back. The source's previous
	// live version stays live.
	Fail(ctx context.Context, job *Job, f Failure) error
}
