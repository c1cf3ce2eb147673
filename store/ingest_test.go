package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/ingest"
	"ragd/retrieve"
	"ragd/retrieve/indextest"
	"ragd/store"
)

func receive(t *testing.T, s *store.Store, path, content string) (ingest.Outcome, int64) {
	t.Helper()
	outcome, version, err := s.Receive(context.Background(), candidate("", "c", path, content, nil, time.Time{}), strings.NewReader(content))
	require.NoError(t, err)
	return outcome, version
}

func claim(t *testing.T, s *store.Store) *ingest.Job {
	t.Helper()
	job, err := s.Claim(context.Background(), "", "", testIndex, time.Minute)
	require.NoError(t, err)
	return job
}

// finish takes a claimed job to live, with one passage that is its text.
func finish(t *testing.T, s *store.Store, job *ingest.Job, text string) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, s.SaveDocument(ctx, job, &ingest.Document{Text: text}))
	require.NoError(t, s.SavePassages(ctx, job, []ingest.Passage{{Text: text, End: len(text), Language: "en"}}))
	require.NoError(t, s.SaveVectors(ctx, job, []int{0}, []embed.Vector{unit(0)}))
	require.Equal(t, ingest.Embedded, job.State)
	require.NoError(t, s.Publish(ctx, job))
}

func TestStatesOfAVersion(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	require.Nil(t, claim(t, s))
	text := strings.Repeat("long content, ", 200_000) // three pieces
	outcome, version := receive(t, s, "p", text)
	require.Equal(t, ingest.Queued, outcome)
	job := claim(t, s)
	require.Equal(t, version, job.Version)
	require.Equal(t, ingest.Job{Version: version, Lease: 1, State: ingest.Received, Attempt: 1, Source: ingest.Source{Tenant: "default", Corpus: "c", Path: "p"},
		SHA256: sha256.Sum256([]byte(text)), Size: int64(len(text)), Index: testIndex}, *job)
	require.Nil(t, claim(t, s), "leased")

	r, err := s.Content(ctx, job)
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.True(t, string(got) == text)

	doc := &ingest.Document{Kind: "md", Title: "Title", Language: "en", Text: "Grüße\nAbc", Pages: []ingest.Page{{Number: 1, Start: 0, End: 11}},
		Blocks: []ingest.Block{{Kind: ingest.Heading, Level: 1, Start: 0, End: 7}}, Warnings: []string{"garbled"}}
	require.NoError(t, s.SaveDocument(ctx, job, doc))
	require.NoError(t, s.SaveDocument(ctx, job, doc), "saving again is allowed")
	require.Equal(t, ingest.Parsed, job.State)
	back, err := s.Document(ctx, job)
	require.NoError(t, err)
	require.Equal(t, doc, back)

	ps := []ingest.Passage{{Text: "Grüße", End: 7, Context: "Title", Language: "de"}, {Text: "Abc", Start: 8, End: 11, Language: "en"}}
	require.NoError(t, s.SavePassages(ctx, job, ps[:1]))
	require.NoError(t, s.SavePassages(ctx, job, ps))
	pending, err := s.Pending(ctx, job)
	require.NoError(t, err)
	require.Equal(t, []ingest.Pending{{Seq: 0, Text: "Title\nGrüße"}, {Seq: 1, Text: "Abc"}}, pending)

	require.NoError(t, s.SaveVectors(ctx, job, []int{1}, []embed.Vector{unit(1)}))
	require.Equal(t, ingest.Split, job.State)
	require.ErrorContains(t, s.Publish(ctx, job), "1 of 2 passages have no vector")
	hits, err := s.Lexical(ctx, "abc", 5, retrieve.Filter{})
	require.NoError(t, err)
	require.Empty(t, hits, "invisible until published")
	pending, err = s.Pending(ctx, job)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	require.ErrorIs(t, s.SaveVectors(ctx, job, []int{0}, []embed.Vector{{1, 2}}), store.ErrIndexMismatch)
	require.NoError(t, s.SaveVectors(ctx, job, []int{0}, []embed.Vector{unit(0)}))
	require.Equal(t, ingest.Embedded, job.State)
	require.NoError(t, s.Publish(ctx, job))
	require.ErrorIs(t, s.Publish(ctx, job), ingest.ErrLeaseLost)

	d, err := s.DocumentByPath(ctx, "", "c", "p")
	require.NoError(t, err)
	require.True(t, d.Live)
	require.Equal(t, 2, d.Passages)
	require.Equal(t, "Title", d.Title)
	live, err := s.Text(ctx, "", d.ID)
	require.NoError(t, err)
	require.Equal(t, doc.Text, live.Text)
	require.Equal(t, doc.Pages, live.Pages)
	corpora, err := s.Corpora(ctx, "")
	require.NoError(t, err)
	require.Len(t, corpora, 1)
	require.Equal(t, int64(2), corpora[0].Passages)
	require.Equal(t, int64(1), corpora[0].Documents)
	outcome, same := receive(t, s, "p", text)
	require.Equal(t, ingest.Unchanged, outcome)
	require.Equal(t, version, same)
}

func TestLeases(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	receive(t, s, "p", "one")
	first, err := s.Claim(ctx, "", "", testIndex, -time.Second) // expires at once
	require.NoError(t, err)
	require.NoError(t, s.SaveDocument(ctx, first, &ingest.Document{Text: "x"}), "expired, but nobody else has it")
	second := claim(t, s)
	require.Equal(t, 1, second.Attempt, "the state has grown")
	require.Equal(t, ingest.Parsed, second.State)
	for name, call := range map[string]func() error{
		"Extend":       func() error { return s.Extend(ctx, first, time.Minute) },
		"SaveDocument": func() error { return s.SaveDocument(ctx, first, &ingest.Document{Text: "x"}) },
		"SavePassages": func() error { return s.SavePassages(ctx, first, nil) },
		"SaveVectors":  func() error { return s.SaveVectors(ctx, first, nil, nil) },
		"Publish":      func() error { return s.Publish(ctx, first) },
		"Fail":         func() error { return s.Fail(ctx, first, ingest.Failure{}) },
		"Pending":      func() error { _, err := s.Pending(ctx, first); return err },
		"Document":     func() error { _, err := s.Document(ctx, first); return err },
		"Content":      func() error { _, err := s.Content(ctx, first); return err },
	} {
		require.ErrorIs(t, call(), ingest.ErrLeaseLost, name)
	}
	require.NoError(t, s.Extend(ctx, second, time.Minute))

	// Other bytes at the path: the work in hand is lost, the new bytes wait.
	receive(t, s, "p", "two")
	require.ErrorIs(t, s.SavePassages(ctx, second, nil), ingest.ErrLeaseLost)
	third := claim(t, s)
	require.Equal(t, sha256.Sum256([]byte("two")), third.SHA256)
	finish(t, s, third, "two")

	// A newer version waits while the old one is live; the old bytes come back, and the newer one is dropped.
	receive(t, s, "p", "three")
	outcome, _ := receive(t, s, "p", "two")
	require.Equal(t, ingest.Unchanged, outcome)
	require.Nil(t, claim(t, s))
}

func TestFailures(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	_, version := receive(t, s, "p", "good")
	finish(t, s, claim(t, s), "good")
	receive(t, s, "p", "bad")
	job := claim(t, s)
	require.NoError(t, s.Fail(ctx, job, ingest.Failure{Class: ingest.Corrupt, Message: "broken \x00 at byte \xff", Retry: time.Hour}))
	require.Nil(t, claim(t, s), "not before the hour is over")
	_, err := s.Pool().Exec(ctx, `UPDATE document_versions SET retry_at = now() WHERE state = 'received'`)
	require.NoError(t, err)
	job = claim(t, s)
	require.Equal(t, 2, job.Attempt)
	require.NoError(t, s.Fail(ctx, job, ingest.Failure{Class: ingest.Corrupt, Message: "broken"}))
	require.Nil(t, claim(t, s))
	d, err := s.DocumentByPath(ctx, "", "c", "p")
	require.NoError(t, err)
	require.True(t, d.Live, "the previous version stays")
	require.Equal(t, ingest.Failed, d.State)
	require.Equal(t, ingest.Corrupt, d.ErrorClass)
	hits, err := s.Lexical(ctx, "good", 5, retrieve.Filter{})
	require.NoError(t, err)
	require.Len(t, hits, 1)

	n, err := s.Retry(ctx, "", "c", 0)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	job = claim(t, s)
	require.Equal(t, 1, job.Attempt)
	require.NoError(t, s.Fail(ctx, job, ingest.Failure{Class: ingest.Empty}))
	outcome, again := receive(t, s, "p", "bad")
	require.Equal(t, ingest.Queued, outcome)
	require.Equal(t, job.Version, again)
	finish(t, s, claim(t, s), "better")
	require.Equal(t, int64(1), count(t, s, `SELECT count(*) FROM document_versions WHERE id = $1 AND state = 'retired'`, version))
}

func TestContentIsChecked(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	c := candidate("", "c", "p", "as hashed", nil, time.Time{})
	_, _, err := s.Receive(ctx, c, strings.NewReader("as read later"))
	require.ErrorContains(t, err, "changed")
	require.Zero(t, count(t, s, `SELECT count(*) FROM contents`))
	_, _, err = s.Receive(ctx, c, broken{})
	require.ErrorContains(t, err, "unplugged")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, store.ErrUnavailable, "the upload broke off, not the database")
	_, _, err = s.Receive(ctx, c, strings.NewReader("as hashed"))
	require.NoError(t, err)
	// The bytes are there: a second path does not read them again.
	c.Path = "q"
	_, _, err = s.Receive(ctx, c, broken{})
	require.NoError(t, err)
	require.Equal(t, int64(1), count(t, s, `SELECT count(*) FROM contents`))
	require.Error(t, s.SaveDocument(ctx, claim(t, s), &ingest.Document{Text: "with \x00"}))
}

// broken is an upload that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, fmt.Errorf("unplugged: %w", io.ErrUnexpectedEOF) }

// Several workers of two tenants ingest, replace, search and delete at once; nobody ever sees the other tenant's rows, and at the end the index is
// what it would be had everything been done in order.
func TestTwoTenantsUnderLoad(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	var group sync.WaitGroup
	tenants := []string{"acme", "globex"}
	for _, tenant := range tenants {
		for worker := range 2 {
			group.Go(func() {
				r := rand.New(rand.NewPCG(uint64(len(tenant)), uint64(worker)))
				for i := range 12 {
					path := fmt.Sprintf("doc%d", r.IntN(4))
					content := fmt.Sprintf("shared words of %s number %d by %d", tenant, i, worker)
					_, _, err := s.Receive(ctx, candidate(tenant, "c", path, content, nil, time.Time{}), bytes.NewReader([]byte(content)))
					if err != nil {
						t.Errorf("receive: %v", err)
					}
					work(t, s, tenant)
					for _, find := range []func() ([]retrieve.Hit, error){
						func() ([]retrieve.Hit, error) {
							return s.Lexical(ctx, "shared words", 50, retrieve.Filter{Tenant: tenant})
						},
						func() ([]retrieve.Hit, error) { return s.Dense(ctx, unit(0), 50, retrieve.Filter{Tenant: tenant}) },
					} {
						hits, err := find()
						if err != nil {
							t.Errorf("search: %v", err)
							continue
						}
						checkTenant(t, s, tenant, hits)
					}
					if r.IntN(4) == 0 {
						if d, err := s.DocumentByPath(ctx, tenant, "c", path); err == nil {
							if err := s.DeleteDocument(ctx, tenant, d.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
								t.Errorf("delete: %v", err)
							}
						}
					}
				}
			})
		}
	}
	group.Wait()
	for _, tenant := range tenants {
		work(t, s, tenant)
		before, err := s.Lexical(ctx, "shared words number", 50, retrieve.Filter{Tenant: tenant})
		require.NoError(t, err)
		require.NoError(t, s.Reindex(ctx, tenant, "c"))
		after, err := s.Lexical(ctx, "shared words number", 50, retrieve.Filter{Tenant: tenant})
		require.NoError(t, err)
		require.Equal(t, after, before)
	}
	require.Equal(t, count(t, s, `SELECT count(*) FROM documents WHERE live_version IS NOT NULL`), count(t, s, `SELECT count(*) FROM passage_vectors`))
}

// work claims and finishes what waits. Losing a lease to a newer version or a deletion is part of the game.
func work(t *testing.T, s *store.Store, tenant string) {
	ctx := context.Background()
	for {
		job, err := s.Claim(ctx, tenant, "c", testIndex, time.Minute)
		if err != nil {
			t.Errorf("claim: %v", err)
			return
		}
		if job == nil {
			return
		}
		if job.Tenant != tenant {
			t.Errorf("claimed work of %s for %s", job.Tenant, tenant)
		}
		err = func() error {
			r, err := s.Content(ctx, job)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if err := s.SaveDocument(ctx, job, &ingest.Document{Text: string(text)}); err != nil {
				return err
			}
			if err := s.SavePassages(ctx, job, []ingest.Passage{{Text: string(text), End: len(text), Language: "en"}}); err != nil {
				return err
			}
			if err := s.SaveVectors(ctx, job, []int{0}, []embed.Vector{unit(int(job.Version) % indextest.Dim)}); err != nil {
				return err
			}
			return s.Publish(ctx, job)
		}()
		if err != nil && !errors.Is(err, ingest.ErrLeaseLost) {
			t.Errorf("work: %v", err)
		}
	}
}

func checkTenant(t *testing.T, s *store.Store, tenant string, hits []retrieve.Hit) {
	var ids []retrieve.PassageID
	for _, h := range hits {
		ids = append(ids, h.ID)
	}
	ps, err := s.Passages(context.Background(), ids, retrieve.Filter{Tenant: tenant})
	if err != nil {
		t.Errorf("passages: %v", err)
	}
	for _, p := range ps {
		if !strings.Contains(p.Text, " of "+tenant+" ") {
			t.Errorf("%s sees %q", tenant, p.Text)
		}
	}
	other := map[string]string{"acme": "globex", "globex": "acme"}[tenant]
	if ps, err := s.Passages(context.Background(), ids, retrieve.Filter{Tenant: other}); err != nil || len(ps) > 0 {
		t.Errorf("%s reads passages of %s by their ids: %v, %v", other, tenant, ps, err)
	}
}

// The database's clock ran ahead by a year, somebody took a document, and the clock was set back: the document does not wait for a year.
func TestLeaseOfAClockThatRanAhead(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	receive(t, s, "p", "some bytes")
	job := claim(t, s)
	require.NotNil(t, job)
	_, err := s.Pool().Exec(ctx, `UPDATE document_versions SET lease_until = now() + interval '1 year', retry_at = now() + interval '1 year'`)
	require.NoError(t, err)
	again := claim(t, s)
	require.NotNil(t, again)
	require.ErrorIs(t, s.SaveDocument(ctx, job, &ingest.Document{Text: "late"}), ingest.ErrLeaseLost)
	finish(t, s, again, "some words")
}
