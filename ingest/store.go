package ingest

import (
	"context"
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
	Live     State = "live"     // visible to retrieval
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
}

// Index identifies what a corpus's passages are made with. Text split or
// embedded differently must never be searched together.
type Index struct {
	Model    string // embed.Embedder.Model
	Dim      int
	Splitter string // Splitter.Fingerprint
}

// Outcome of Receive.
type Outcome uint8

// The outcomes of Receive.
const (
	Queued    Outcome = iota // a version waits to be worked on (new, resumed, or failed before and retried)
	Unchanged                // the live version has the same bytes, made with the same Index
)

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
	// Receive records that source c has these bytes. content is read only when
	// the store doesn't hold bytes with that hash. A pending version of the source
	// with the same hash and Index keeps its state and work, and its attempts count
	// anew, because somebody asks for it again; one with other bytes is superseded
	// (its lease is lost). A failed version with the same hash starts again. An Index other than the corpus's own is an error that names both.
	Receive(ctx context.Context, c Candidate, content io.Reader) (Outcome, int64, error)

	// Status says where a version is, and why it failed if it did. ErrLeaseLost
	// (wrapped) when the version no longer exists.
	Status(ctx context.Context, tenant string, version int64) (State, Failure, error)

	// Claim leases a version that is neither Live nor Failed, whose lease is free
	// or expired, whose retry time has come: the oldest. nil, nil: nothing to do.
	// tenant and corpus select; "" is any.
	Claim(ctx context.Context, tenant, corpus string, lease time.Duration) (*Job, error)

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
	// never half. It is an error while a passage lacks its vector.
	Publish(ctx context.Context, job *Job) error

	// Fail records the failure and gives the lease back. The source's previous
	// live version stays live.
	Fail(ctx context.Context, job *Job, f Failure) error
}
