package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"ragd/embed"
)

const (
	defaultPatience = 2 * time.Minute // a server's restart takes seconds, its recovery after a crash perhaps a minute
	maxPause        = 2 * time.Second
)

// patientStore repeats what failed because the database could not be reached.
// Every method of a Store may be repeated: each is one transaction and is
// idempotent, or finds that its lease is lost because it had succeeded.
type patientStore struct {
	Store
	wait time.Duration
	log  *slog.Logger
}

func (s *patientStore) try(ctx context.Context, call func() error) error {
	var deadline time.Time
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		err := call()
		if err == nil || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(cmp.Or(s.wait, defaultPatience))
			s.log.Warn("the database is away; waiting for it", "error", err)
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// valueOf is try for a call with a value.
func valueOf[T any](ctx context.Context, s *patientStore, call func() (T, error)) (v T, err error) {
	err = s.try(ctx, func() (err error) { v, err = call(); return err })
	return v, err
}

func (s *patientStore) Index(ctx context.Context, tenant, corpus string) (Index, error) {
	return valueOf(ctx, s, func() (Index, error) { return s.Store.Index(ctx, tenant, corpus) })
}

func (s *patientStore) Receive(ctx context.Context, c Candidate, content io.Reader) (o Outcome, v int64, err error) {
	seeker, again := content.(io.Seeker)
	err = s.try(ctx, func() error {
		if again {
			if _, err := seeker.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
		if o, v, err = s.Store.Receive(ctx, c, content); err != nil && !again {
			return &onlyOnce{err}
		}
		return err
	})
	return o, v, err
}

// onlyOnce hides that an error is worth another try: the bytes are read already.
type onlyOnce struct{ err error }

func (e *onlyOnce) Error() string { return e.err.Error() }

func (s *patientStore) Preview(ctx context.Context, c Candidate) (Preview, error) {
	return valueOf(ctx, s, func() (Preview, error) { return s.Store.Preview(ctx, c) })
}

func (s *patientStore) Origins(ctx context.Context, tenant, corpus, prefix string) ([]Placed, error) {
	return valueOf(ctx, s, func() ([]Placed, error) { return s.Store.Origins(ctx, tenant, corpus, prefix) })
}

func (s *patientStore) Remove(ctx context.Context, tenant, corpus, path string) error {
	return s.try(ctx, func() error { return s.Store.Remove(ctx, tenant, corpus, path) })
}

func (s *patientStore) Status(ctx context.Context, tenant string, version int64) (state State, f Failure, err error) {
	err = s.try(ctx, func() error { state, f, err = s.Store.Status(ctx, tenant, version); return err })
	return state, f, err
}

func (s *patientStore) Claim(ctx context.Context, tenant, corpus string, index Index, lease time.Duration) (*Job, error) {
	return valueOf(ctx, s, func() (*Job, error) { return s.Store.Claim(ctx, tenant, corpus, index, lease) })
}

// read reads a job's bytes into buf, from the beginning again when the database goes away meanwhile.
func (s *patientStore) read(ctx context.Context, job *Job, buf *bytes.Buffer) error {
	return s.try(ctx, func() error {
		content, err := s.Content(ctx, job)
		if err != nil {
			return err
		}
		defer content.Close()
		buf.Reset()
		_, err = buf.ReadFrom(content)
		return err
	})
}

func (s *patientStore) Document(ctx context.Context, job *Job) (*Document, error) {
	return valueOf(ctx, s, func() (*Document, error) { return s.Store.Document(ctx, job) })
}

func (s *patientStore) Pending(ctx context.Context, job *Job) ([]Pending, error) {
	return valueOf(ctx, s, func() ([]Pending, error) { return s.Store.Pending(ctx, job) })
}

func (s *patientStore) SaveDocument(ctx context.Context, job *Job, d *Document) error {
	return s.try(ctx, func() error { return s.Store.SaveDocument(ctx, job, d) })
}

func (s *patientStore) SavePassages(ctx context.Context, job *Job, ps []Passage) error {
	return s.try(ctx, func() error { return s.Store.SavePassages(ctx, job, ps) })
}

func (s *patientStore) SaveVectors(ctx context.Context, job *Job, seqs []int, vs []embed.Vector) error {
	return s.try(ctx, func() error { return s.Store.SaveVectors(ctx, job, seqs, vs) })
}

func (s *patientStore) Publish(ctx context.Context, job *Job) error {
	return s.try(ctx, func() error { return s.Store.Publish(ctx, job) })
}

func (s *patientStore) Shadow(ctx context.Context, tenant, corpus string, to Index) (Shadow, error) {
	return valueOf(ctx, s, func() (Shadow, error) { return s.Store.Shadow(ctx, tenant, corpus, to) })
}

func (s *patientStore) Switch(ctx context.Context, tenant, corpus string, to Index) (bool, error) {
	return valueOf(ctx, s, func() (bool, error) { return s.Store.Switch(ctx, tenant, corpus, to) })
}

func (s *patientStore) Fail(ctx context.Context, job *Job, f Failure) error {
	return s.try(ctx, func() error { return s.Store.Fail(ctx, job, f) })
}
