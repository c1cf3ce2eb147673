package ingest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// otherEmbedder is a second model.
type otherEmbedder struct{ textEmbedder }

func (*otherEmbedder) Model() string { return "other" }

func otherPipeline(s Store) *Pipeline {
	p := newPipeline(s)
	p.Embedder, p.Splitter = &otherEmbedder{}, &Splitter{MaxTokens: 90}
	return p
}

// afterMigration is what a corpus of dir made by the other pipeline alone holds.
func afterMigration(t *testing.T, dir string) []row {
	m := newMemStore()
	_, err := otherPipeline(m).Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	return m.rows()
}

func TestMigrate(t *testing.T) {
	m := newMemStore()
	dir := handbook(t)
	_, err := newPipeline(m).Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	before := m.rows()
	p := otherPipeline(m)
	p.Embedder = &otherEmbedder{textEmbedder{before: func(int, []string) error {
		require.Equal(t, before, m.rows(), "readers see the old index")
		return nil
	}}}
	var last Progress
	report, err := p.Migrate(t.Context(), "", "c", func(now Progress) { last = now })
	require.NoError(t, err)
	require.Equal(t, 5, report.Documents)
	require.Equal(t, 5, last.DocumentsKnown)
	require.Equal(t, afterMigration(t, dir), m.rows())
	again, err := p.Migrate(t.Context(), "", "c", nil)
	require.NoError(t, err)
	require.Zero(t, again.Documents, "it is done already")
	_, err = newPipeline(m).Run(t.Context(), "", "c", []string{dir}, nil)
	require.ErrorIs(t, err, ErrIndexMismatch, "the old pipeline is refused now")
	_, err = p.Migrate(t.Context(), "", "nowhere", nil)
	require.ErrorContains(t, err, "no such corpus")
}

// TestMigrateResumes: ended at any step, the old index is whole; the next call completes the change.
func TestMigrateResumes(t *testing.T) {
	dir := handbook(t)
	want := afterMigration(t, dir)
	for _, method := range []string{"SaveDocument", "SavePassages", "SaveVectors", "Publish"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", method, after), func(t *testing.T) {
				m := newMemStore()
				_, err := newPipeline(m).Run(t.Context(), "", "c", []string{dir}, nil)
				require.NoError(t, err)
				before := m.rows()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := otherPipeline(&stopAt{Store: m, method: method, after: after, n: 1, stop: cancel})
				_, err = p.Migrate(ctx, "", "c", nil)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, before, m.rows())
				_, err = otherPipeline(m).Migrate(t.Context(), "", "c", nil)
				require.NoError(t, err)
				require.Equal(t, want, m.rows())
			})
		}
	}
}

// TestMigrateFollows: what arrives, changes and goes while the index is made anew is in it.
func TestMigrateFollows(t *testing.T) {
	m := newMemStore()
	dir := folder(t, "a.txt", "The office opens at eight.", "b.txt", "Tea is free.", "c.txt", "Lifts are slow.")
	old := newPipeline(m)
	_, err := old.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	p := otherPipeline(m)
	p.Embedder = &otherEmbedder{textEmbedder{before: func(call int, _ []string) error {
		if call > 1 {
			return nil
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("The office opens at nine."), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "d.txt"), []byte("Bikes go below."), 0o644))
		require.NoError(t, os.Remove(filepath.Join(dir, "b.txt")))
		old.Prune = true
		_, err := old.Run(t.Context(), "", "c", []string{dir}, nil)
		require.NoError(t, err)
		// And one that waits still when the switch comes.
		_, _, err = old.Add(t.Context(), Candidate{Source: Source{Corpus: "c", Path: "late.txt"}}, []byte("Late words."))
		return err
	}}}
	_, err = p.Migrate(t.Context(), "", "c", nil)
	require.NoError(t, err)
	require.Equal(t, afterMigration(t, dir), m.rows())
	report, err := p.Run(t.Context(), "", "c", nil, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Documents, "the waiting one starts anew for the new index")
}

// TestMigrateFails: a document that cannot be made anew leaves the old index as it was.
func TestMigrateFails(t *testing.T) {
	m := newMemStore()
	now := time.Now()
	m.clock = func() time.Time { now = now.Add(time.Second); return now } // retries come due at once; m.mu is held
	dir := folder(t, "a.txt", "Good words.", "b.txt", "The poison one.")
	p := newPipeline(m)
	p.Lease = time.Hour
	_, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	before := m.rows()
	p = otherPipeline(m)
	p.Lease = time.Hour
	p.Embedder = &otherEmbedder{textEmbedder{poison: "poison"}}
	report, err := p.Migrate(t.Context(), "", "c", nil)
	require.ErrorContains(t, err, "1 documents could not be made with other, so the corpus stays with digest")
	require.Len(t, report.Failed, 1)
	require.Equal(t, before, m.rows())
	p.Embedder = &otherEmbedder{}
	_, err = p.Migrate(t.Context(), "", "c", nil)
	require.NoError(t, err, "with the fault mended it goes through")
	require.Equal(t, afterMigration(t, dir), m.rows())
}
