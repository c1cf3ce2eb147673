package server_test

import (
	"context"
	"fmt"
	"io"

	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

// What the fakes do of uploads and jobs; whole_test.go and uploads_test.go test the real ones.

// upload is a file that the fakes are receiving.
type upload struct {
	store.Upload
	data []byte
}

func (f *fakes) CreateUpload(_ context.Context, _ string, u store.Upload) (store.Upload, bool, error) {
	err := f.locked(func() error {
		u.ID = fmt.Sprint("upload", len(f.receiving))
		f.receiving = append(f.receiving, &upload{Upload: u})
		return nil
	})
	return u, true, err
}

func (f *fakes) receivingID(id string) (found *upload, err error) {
	err = f.locked(func() error {
		for _, u := range f.receiving {
			if u.ID == id {
				found = u
				return nil
			}
		}
		return store.ErrNotFound
	})
	return found, err
}

func (f *fakes) Upload(_ context.Context, _, id string) (store.Upload, error) {
	u, err := f.receivingID(id)
	if err != nil {
		return store.Upload{}, err
	}
	return u.Upload, nil
}

func (f *fakes) AppendUpload(_ context.Context, _, id string, _ int64, content io.Reader) (int64, error) {
	u, err := f.receivingID(id)
	if err != nil {
		return 0, err
	}
	data, err := io.ReadAll(content)
	u.data = append(u.data, data...)
	u.Received = int64(len(u.data))
	return u.Received, err
}

func (f *fakes) FinishUpload(ctx context.Context, _, id string, c ingest.Candidate) (store.Upload, error) {
	u, err := f.receivingID(id)
	if err != nil {
		return store.Upload{}, err
	}
	outcome, document, err := f.Add(ctx, c, u.data)
	if err != nil {
		return store.Upload{}, err
	}
	u.Document, u.Queued = retrieve.DocumentID(document), outcome == ingest.Queued
	return u.Upload, nil
}

func (f *fakes) DropUpload(context.Context, string, string) error { return nil }

func (f *fakes) Jobs(context.Context, string, []string, int64, int) ([]store.Job, error) {
	return []store.Job{{Version: 3, Document: 11, Corpus: "hr", Path: "a.pdf", State: ingest.Failed, Size: 10, ErrorClass: ingest.Internal, Error: "it broke"}}, nil
}

func (f *fakes) Retry(context.Context, string, string, retrieve.DocumentID) (int, error) {
	return 1, nil
}

func (f *fakes) Cancel(context.Context, string, string, retrieve.DocumentID) (int, error) {
	return 1, nil
}

func (f *fakes) Maintain(context.Context, store.Retention) error { return nil }

func (f *fakes) Deletions(ctx context.Context, _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}
