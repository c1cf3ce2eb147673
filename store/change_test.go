package store_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

// steps are what a worker does with a job whose document is one passage: text. steps[i] leaves it in states[i+1].
func steps(s *store.Store, text string) []func(*ingest.Job) error {
	ctx := context.Background()
	return []func(*ingest.Job) error{
		func(job *ingest.Job) error {
			return s.SaveDocument(ctx, job, &ingest.Document{Text: text, Title: text})
		},
		func(job *ingest.Job) error {
			return s.SavePassages(ctx, job, []ingest.Passage{{Text: text, End: len(text), Language: "en"}})
		},
		func(job *ingest.Job) error { return s.SaveVectors(ctx, job, []int{0}, []embed.Vector{unit(0)}) },
		func(job *ingest.Job) error { return s.Publish(ctx, job) },
	}
}

// inState brings a document at path to a state, held by a worker where that can be.
func inState(t *testing.T, s *store.Store, path, text string, state ingest.State) *ingest.Job {
	t.Helper()
	receive(t, s, path, text)
	job := claim(t, s)
	if state == ingest.Failed {
		require.NoError(t, s.Fail(context.Background(), job, ingest.Failure{Class: ingest.Corrupt, Message: text}))
		return job
	}
	for _, step := range steps(s, text) {
		if job.State == state {
			return job
		}
		require.NoError(t, step(job))
	}
	require.Equal(t, state, job.State)
	return job
}

// In every state, with a worker at work: after a deletion no row of any table holds anything of the document, and the worker's next call is refused.
func TestDeleteInEveryState(t *testing.T) {
	ctx := context.Background()
	for _, state := range []ingest.State{ingest.Received, ingest.Parsed, ingest.Split, ingest.Embedded, ingest.Live, ingest.Failed} {
		t.Run(string(state), func(t *testing.T) {
			s := open(t)
			finish(t, s, func() *ingest.Job { receive(t, s, "kept", "kept words"); return claim(t, s) }(), "kept words")
			before := everything(t, s)
			const marker = "xyzzymarker"
			job := inState(t, s, "gone/"+marker, marker+" plugh", state)
			d, err := s.DocumentByPath(ctx, "", "c", "gone/"+marker)
			require.NoError(t, err)
			require.NotEmpty(t, grep(t, s, marker))
			require.NoError(t, s.DeleteDocument(ctx, "", d.ID))
			require.Empty(t, grep(t, s, marker))
			require.Equal(t, before, everything(t, s))
			for _, step := range steps(s, marker) {
				require.ErrorIs(t, step(job), ingest.ErrLeaseLost)
			}
			require.ErrorIs(t, s.Extend(ctx, job, time.Minute), ingest.ErrLeaseLost)
		})
	}
}

// grep returns the rows of all tables that hold word, as text or in the bytes of a bytea.
func grep(t *testing.T, s *store.Store, word string) (found []string) {
	for table, rows := range everything(t, s) {
		for _, row := range rows {
			if lower := strings.ToLower(row); strings.Contains(lower, word) || strings.Contains(lower, hex.EncodeToString([]byte(word))) {
				found = append(found, table+": "+row)
			}
		}
	}
	return found
}

func TestCancelInEveryState(t *testing.T) {
	ctx := context.Background()
	for _, state := range []ingest.State{ingest.Received, ingest.Parsed, ingest.Split, ingest.Embedded} {
		t.Run(string(state), func(t *testing.T) {
			s := open(t)
			finish(t, s, func() *ingest.Job { receive(t, s, "p", "old words"); return claim(t, s) }(), "old words")
			before := everything(t, s)
			job := inState(t, s, "p", "new words", state)
			fresh := inState(t, s, "q", "fresh words", state)
			n, err := s.Cancel(ctx, "", "c", 0)
			require.NoError(t, err)
			require.Equal(t, 2, n)
			require.Equal(t, before, everything(t, s), "the old version is live, the new document never was")
			for _, j := range []*ingest.Job{job, fresh} {
				require.ErrorIs(t, s.Publish(ctx, j), ingest.ErrLeaseLost)
			}
			outcome, _ := receive(t, s, "p", "new words")
			require.Equal(t, ingest.Queued, outcome, "it can come again")
		})
	}
}

var nextIndex = ingest.Index{Model: "next", Dim: testIndex.Dim, Splitter: "other"}

// prepared makes what waits for an index ready, with one passage that is the document's bytes.
func prepared(t *testing.T, s *store.Store, index ingest.Index) (n int) {
	t.Helper()
	ctx := context.Background()
	for ; ; n++ {
		job, err := s.Claim(ctx, "", "c", index, time.Minute)
		require.NoError(t, err)
		if job == nil {
			return n
		}
		r, err := s.Content(ctx, job)
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		for _, step := range steps(s, string(text)) {
			require.NoError(t, step(job))
		}
	}
}

func TestSwitch(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	for _, name := range []string{"a", "b", "c"} {
		receive(t, s, name, "words of "+name)
	}
	prepared(t, s, testIndex)
	old, err := s.Lexical(ctx, "words", 9, retrieve.Filter{})
	require.NoError(t, err)
	require.Len(t, old, 3)

	shadow, err := s.Shadow(ctx, "", "c", nextIndex)
	require.NoError(t, err)
	require.Equal(t, ingest.Shadow{Documents: 3}, shadow)
	switched, err := s.Switch(ctx, "", "c", nextIndex)
	require.NoError(t, err)
	require.False(t, switched, "nothing is ready")
	require.Zero(t, prepared(t, s, testIndex), "workers of the old model leave the new versions alone")
	require.Equal(t, 3, prepared(t, s, nextIndex))
	d, err := s.DocumentByPath(ctx, "", "c", "a")
	require.NoError(t, err)
	require.Equal(t, ingest.Live, d.State, "what a document's state says is that of the index in use")
	still, err := s.Lexical(ctx, "words", 9, retrieve.Filter{})
	require.NoError(t, err)
	require.Equal(t, old, still)

	// While the new index is made: one changes, one arrives, one goes, one only waits.
	receive(t, s, "a", "other words of a")
	receive(t, s, "d", "words of d")
	prepared(t, s, testIndex)
	b, err := s.DocumentByPath(ctx, "", "c", "b")
	require.NoError(t, err)
	require.NoError(t, s.DeleteDocument(ctx, "", b.ID))
	receive(t, s, "e", "words of e")
	working := claim(t, s)
	switched, err = s.Switch(ctx, "", "c", nextIndex)
	require.NoError(t, err)
	require.False(t, switched)
	shadow, err = s.Shadow(ctx, "", "c", nextIndex)
	require.NoError(t, err)
	require.Equal(t, ingest.Shadow{Documents: 3, Ready: 1}, shadow)
	require.Equal(t, 2, prepared(t, s, nextIndex))

	// A reader in the middle of a question sees the old index to its end.
	require.NoError(t, s.Snapshot(ctx, func(x retrieve.Index) error {
		before, err := x.Dense(ctx, unit(0), 9, retrieve.Filter{Model: testIndex.Model})
		require.NoError(t, err)
		switched, err := s.Switch(ctx, "", "c", nextIndex)
		require.NoError(t, err)
		require.True(t, switched)
		after, err := x.Dense(ctx, unit(0), 9, retrieve.Filter{Model: testIndex.Model})
		require.NoError(t, err)
		require.Equal(t, before, after)
		return nil
	}))
	index, err := s.Index(ctx, "", "c")
	require.NoError(t, err)
	require.Equal(t, nextIndex, index)
	require.ErrorIs(t, s.SaveDocument(ctx, working, &ingest.Document{Text: "x"}), ingest.ErrLeaseLost)
	_, err = s.Dense(ctx, unit(0), 9, retrieve.Filter{Model: testIndex.Model})
	require.ErrorIs(t, err, store.ErrIndexMismatch, "a question of the old model")
	require.ErrorContains(t, err, "--embedder next")
	_, _, err = s.Receive(ctx, candidate("", "c", "f", "x", nil, time.Time{}), strings.NewReader("x"))
	require.ErrorIs(t, err, store.ErrIndexMismatch, "a document for the old model")
	require.Equal(t, 1, prepared(t, s, nextIndex), "the one that waited starts anew")
	require.Equal(t, []string{"other words of a", "words of c", "words of d", "words of e"}, texts(t, s, "words"))
	e, err := s.Excerpt(ctx, old[0].ID, 10, retrieve.Filter{})
	require.NoError(t, err, "what was cited before can be followed")
	require.False(t, e.Live)

	// The incremental index is what a fresh one would be.
	before, err := s.Lexical(ctx, "words", 9, retrieve.Filter{})
	require.NoError(t, err)
	require.NoError(t, s.Reindex(ctx, "", "c"))
	after, err := s.Lexical(ctx, "words", 9, retrieve.Filter{})
	require.NoError(t, err)
	require.Equal(t, after, before)
	again, err := s.Switch(ctx, "", "c", nextIndex)
	require.NoError(t, err)
	require.True(t, again, "done already")
}

func texts(t *testing.T, s *store.Store, q string) (all []string) {
	hits, err := s.Lexical(context.Background(), q, 99, retrieve.Filter{})
	require.NoError(t, err)
	var ids []retrieve.PassageID
	for _, h := range hits {
		ids = append(ids, h.ID)
	}
	ps, err := s.Passages(context.Background(), ids, retrieve.Filter{})
	require.NoError(t, err)
	for _, p := range ps {
		all = append(all, p.Text)
	}
	slices.Sort(all)
	return all
}

// The database itself refuses vectors of two spaces in one corpus.
func TestMixedSpacesAreImpossible(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	finish(t, s, func() *ingest.Job { receive(t, s, "p", "words"); return claim(t, s) }(), "words")
	require.NoError(t, s.CreateCorpus(ctx, "", "other", nextIndex))
	for _, sql := range []string{
		`UPDATE passage_vectors SET space = (SELECT id FROM embedding_spaces WHERE model = 'next')`,
		`UPDATE corpora SET space = (SELECT id FROM embedding_spaces WHERE model = 'next') WHERE name = 'c'`,
	} {
		_, err := s.Pool().Exec(ctx, sql)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "passage_vectors_space", pg.ConstraintName)
	}
}

func TestUpload(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	content := bytes.Repeat([]byte("a long file, "), 200_000) // three pieces
	u, created, err := s.CreateUpload(ctx, "", store.Upload{Corpus: "c", Path: "p", Size: int64(len(content)), Key: "k"})
	require.NoError(t, err)
	require.True(t, created)
	// It breaks off, in the middle of a piece; what came is kept.
	received, err := s.AppendUpload(ctx, "", u.ID, 0, io.MultiReader(bytes.NewReader(content[:1_500_000]), broken{}))
	require.ErrorContains(t, err, "unplugged")
	require.EqualValues(t, 1_500_000, received)
	again, created, err := s.CreateUpload(ctx, "", store.Upload{Corpus: "c", Path: "p", Size: int64(len(content)), Key: "k"})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, u.ID, again.ID)
	require.EqualValues(t, 1_500_000, again.Received)
	_, _, err = s.CreateUpload(ctx, "", store.Upload{Corpus: "c", Path: "another", Size: 3, Key: "k"})
	require.ErrorIs(t, err, store.ErrKeyReused)

	_, err = s.AppendUpload(ctx, "", u.ID, 7, strings.NewReader("x"))
	require.ErrorIs(t, err, store.ErrOffset)
	_, err = s.FinishUpload(ctx, "", u.ID, candidate("", "c", "p", "", nil, time.Time{}))
	require.ErrorIs(t, err, store.ErrOffset, "bytes are missing")
	received, err = s.AppendUpload(ctx, "", u.ID, received, bytes.NewReader(content[received:]))
	require.NoError(t, err)
	_, err = s.AppendUpload(ctx, "", u.ID, received, strings.NewReader("x"))
	require.ErrorIs(t, err, store.ErrTooLong)
	done, err := s.FinishUpload(ctx, "", u.ID, candidate("", "c", "p", "", nil, time.Time{}))
	require.NoError(t, err)
	require.True(t, done.Queued)
	once, err := s.FinishUpload(ctx, "", u.ID, candidate("", "c", "p", "", nil, time.Time{}))
	require.NoError(t, err)
	require.Equal(t, done, once)
	require.Zero(t, count(t, s, `SELECT count(*) FROM upload_pieces`))
	job := claim(t, s)
	r, err := s.Content(ctx, job)
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
	require.EqualValues(t, len(content), job.Size)
	outcome, _ := receive(t, s, "p", string(content))
	require.Equal(t, ingest.Queued, outcome, "the same version")
	require.Equal(t, int64(1), count(t, s, `SELECT count(*) FROM document_versions`))

	// Two clients send the same piece: one of them wins.
	u, _, err = s.CreateUpload(ctx, "", store.Upload{Corpus: "c", Path: "q", Size: 4})
	require.NoError(t, err)
	var group sync.WaitGroup
	failures := make(chan error, 8)
	for range cap(failures) {
		group.Go(func() {
			_, err := s.AppendUpload(ctx, "", u.ID, 0, strings.NewReader("four"))
			failures <- err
		})
	}
	group.Wait()
	close(failures)
	won := 0
	for err := range failures {
		if err == nil {
			won++
		} else {
			require.ErrorIs(t, err, store.ErrOffset)
		}
	}
	require.Equal(t, 1, won)
	_, err = s.Upload(ctx, "globex", u.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "another tenant's")
	require.NoError(t, s.DropUpload(ctx, "", u.ID))
	require.ErrorIs(t, s.DropUpload(ctx, "", u.ID), store.ErrNotFound)
	require.Zero(t, count(t, s, `SELECT count(*) FROM upload_pieces`))

	u, _, err = s.CreateUpload(ctx, "", store.Upload{Corpus: "c", Path: "empty", Size: 0})
	require.NoError(t, err)
	_, err = s.FinishUpload(ctx, "", u.ID, candidate("", "c", "empty", "", nil, time.Time{}))
	require.NoError(t, err)
	_, err = s.Pool().Exec(ctx, `UPDATE uploads SET updated_at = now() - interval '2 days'`)
	require.NoError(t, err)
	require.NoError(t, s.Maintain(ctx, store.Retention{}))
	require.Zero(t, count(t, s, `SELECT count(*) FROM uploads`))
}

func TestJobs(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	inState(t, s, "live", "a", ingest.Live)
	inState(t, s, "split", "b", ingest.Split)
	inState(t, s, "failed", "c", ingest.Failed)
	receive(t, s, "received", "d")
	jobs, err := s.Jobs(ctx, "", nil, 0, 10)
	require.NoError(t, err)
	var lines []string
	for _, j := range jobs {
		lines = append(lines, fmt.Sprintf("%s %s %d/%d %v %s", j.Path, j.State, j.Embedded, j.Passages, j.Working, j.ErrorClass))
	}
	require.Equal(t, []string{"split split 0/1 true ", "failed failed 0/0 false corrupt", "received received 0/0 false "}, lines)
	page, err := s.Jobs(ctx, "", []string{"c"}, jobs[0].Version, 1)
	require.NoError(t, err)
	require.Equal(t, jobs[1:2], page)
	none, err := s.Jobs(ctx, "globex", nil, 0, 10)
	require.NoError(t, err)
	require.Empty(t, none)
}

// A process hears of deletions by another, and of a time in which it could hear nothing.
func TestDeletionsAreHeard(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan string, 10)
	ended := make(chan error, 1)
	go func() { ended <- s.Deletions(ctx, func(tenant string) { heard <- tenant }) }()
	require.Empty(t, <-heard, "at the start: everything")
	receive(t, s, "p", "words")
	d, err := s.DocumentByPath(ctx, "", "c", "p")
	require.NoError(t, err)
	require.NoError(t, s.DeleteDocument(ctx, "", d.ID))
	require.Equal(t, store.DefaultTenant, <-heard)
	_, err = s.Pool().Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN ragd_deleted' AND datname = current_database()`)
	require.NoError(t, err)
	require.Empty(t, <-heard, "after a broken connection: everything")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Documents that are published at the same time go into the index together; one that lacks a vector, and one that was deleted, do not stop the others.
func TestPublishTogether(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	const documents = 40
	jobs := make([]*ingest.Job, documents)
	for i := range jobs {
		name := fmt.Sprintf("doc%02d", i)
		state := ingest.Embedded
		if i == 7 {
			state = ingest.Split
		}
		jobs[i] = inState(t, s, name, "common words of "+name, state)
	}
	gone, err := s.DocumentByPath(ctx, "", "c", "doc11")
	require.NoError(t, err)
	require.NoError(t, s.DeleteDocument(ctx, "", gone.ID))
	errs := make([]error, documents)
	var group sync.WaitGroup
	for i, job := range jobs {
		group.Go(func() { errs[i] = s.Publish(ctx, job) })
	}
	group.Wait()
	for i, err := range errs {
		switch i {
		case 7:
			require.ErrorContains(t, err, "1 of 1 passages have no vector")
		case 11:
			require.ErrorIs(t, err, ingest.ErrLeaseLost)
		default:
			require.NoError(t, err)
			require.Equal(t, ingest.Live, jobs[i].State)
		}
	}
	require.Len(t, texts(t, s, "common"), documents-2)
	before, err := s.Lexical(ctx, "common words", 99, retrieve.Filter{})
	require.NoError(t, err)
	require.NoError(t, s.Reindex(ctx, "", "c"))
	after, err := s.Lexical(ctx, "common words", 99, retrieve.Filter{})
	require.NoError(t, err)
	require.Equal(t, after, before)
}
