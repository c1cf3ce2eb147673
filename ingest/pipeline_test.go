package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/embed"
)

// textEmbedder writes a digest of the text into the vector, so that tests can
// tell which text a vector was made of.
type textEmbedder struct {
	mu    sync.Mutex
	calls int
	// before may fail a call, or watch; it is told its number, from 1, and its texts.
	before func(call int, texts []string) error
	poison string // a text that holds it cannot be embedded
}

func (*textEmbedder) Model() string { return "digest" }
func (*textEmbedder) Dim() int      { return 8 }

func (e *textEmbedder) Embed(ctx context.Context, _ embed.Role, texts []string) ([]embed.Vector, error) {
	e.mu.Lock()
	e.calls++
	call := e.calls
	e.mu.Unlock()
	if e.before != nil {
		if err := e.before(call, texts); err != nil {
			return nil, err
		}
	}
	var vs []embed.Vector
	for i, text := range texts {
		if e.poison != "" && strings.Contains(text, e.poison) {
			return vs, fmt.Errorf("text %d is out of order", i)
		}
		vs = append(vs, digest(text))
	}
	return vs, ctx.Err()
}

func digest(text string) embed.Vector {
	sum := sha256.Sum256([]byte(text))
	v := make(embed.Vector, 8)
	v[sum[0]&7] = 1
	if sum[1]&7 != sum[0]&7 {
		v[sum[0]&7], v[sum[1]&7] = 0.6, 0.8
	}
	return v
}

func newPipeline(s Store) *Pipeline {
	return &Pipeline{Store: s, Embedder: &textEmbedder{}, Splitter: &Splitter{MaxTokens: 60}, Lease: time.Second}
}

// folder writes name, content pairs under a new folder named docs.
func folder(t testing.TB, pairs ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "docs")
	for i := 0; i < len(pairs); i += 2 {
		file := filepath.Join(dir, filepath.FromSlash(pairs[i]))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(pairs[i+1]), 0o644))
	}
	return dir
}

func handbook(t testing.TB) string {
	return folder(t,
		"handbook.md", "# Handbook\n\n## Leave\n\n"+sentences(12)+"\n\n## Travel\n\n"+sentences(9),
		"sub/rates.csv", "city,rate\n"+strings.Repeat("Oslo,120\n", 40),
		"sub/letter.txt", sentences(5),
		"memo.docx", string(docxOf(styled("Heading1", "Memo")+para(sentences(6)))),
		"plan.pdf", string(pdfOf(pdfLines("# Plan", "", "We open in May.", "We close in June."), pdfLines("A second page of the plan."))),
		"broken.pdf", "%PDF-1.4 broken",
		"empty.txt", "",
		"photo.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01",
		".git/config", "[core]", "node_modules/x/readme.md", "# no", "draft.tmp", "draft",
		".ragdignore", "*.tmp\n")
}

func TestPipelineRun(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	dir := handbook(t)
	require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "link")))
	var last Progress
	report, err := p.Run(t.Context(), "", "hr", []string{dir}, func(now Progress) {
		require.LessOrEqual(t, now.Passages, now.PassagesKnown)
		require.LessOrEqual(t, now.Documents+now.Unchanged+now.Failed, now.DocumentsKnown+1) // a worker may be ahead of the walk by its own document
		last = now
	})
	require.NoError(t, err)
	require.Equal(t, 5, report.Documents)
	require.Len(t, m.rows(), report.Passages)
	reasons := make(map[string]string)
	for _, n := range report.Skipped {
		reasons[n.Path] = n.Reason
	}
	require.Equal(t, map[string]string{"docs/.git": "hidden", "docs/.ragdignore": "names what is left out", "docs/draft.tmp": "ignored by a pattern", "docs/link": "a symbolic link, not followed",
		"docs/node_modules": "a folder of generated files", "docs/photo.png": reasons["docs/photo.png"]}, reasons)
	require.Contains(t, reasons["docs/photo.png"], "image")
	failed := make(map[string]Class)
	for _, n := range report.Failed {
		failed[n.Path] = n.Class
		require.NotEmpty(t, n.Reason)
	}
	require.Equal(t, map[string]Class{"docs/broken.pdf": Corrupt, "docs/empty.txt": Empty}, failed)
	require.Equal(t, 7, last.DocumentsKnown)
	require.Equal(t, 7, last.Documents+last.Failed)
	require.Equal(t, last.PassagesKnown, last.Passages)
	require.False(t, last.Walking)
	titles := make(map[string]string)
	for _, v := range m.versions {
		if v.document != nil {
			titles[v.Path] = v.document.Title
		}
	}
	require.Equal(t, "letter", titles["docs/sub/letter.txt"])
	for _, r := range m.rows() {
		require.Equal(t, digest(r.Indexed()), r.Vector, "vector of another text")
	}

	again, err := p.Run(t.Context(), "", "hr", []string{dir}, nil)
	require.NoError(t, err)
	require.Zero(t, again.Documents)
	require.Equal(t, 5, again.Unchanged)
	require.Len(t, again.Failed, 2, "failed documents are tried again")
}

// TestPipelineReplaces: a changed file takes over when it is ready, not before.
func TestPipelineReplaces(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	dir := folder(t, "a.txt", "The office opens at eight.")
	_, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("The office opens at nine."), 0o644))
	p.Embedder = &textEmbedder{before: func(int, []string) error {
		require.Contains(t, m.rows()[0].Text, "eight")
		return nil
	}}
	report, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Documents)
	require.Len(t, m.rows(), 1)
	require.Contains(t, m.rows()[0].Text, "nine")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(" "), 0o644))
	report, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Len(t, report.Failed, 1)
	require.Contains(t, m.rows()[0].Text, "nine", "a failed version leaves the one before it live")
}

// stopAt wraps a store and cancels at the n-th call of a method, before or after it took effect.
type stopAt struct {
	Store
	method string
	after  bool
	n      int
	stop   func()
	mu     sync.Mutex
	seen   int
}

func (s *stopAt) call(method string, fn func() error) error {
	s.mu.Lock()
	hit := false
	if method == s.method {
		s.seen++
		hit = s.seen == s.n
	}
	s.mu.Unlock()
	if hit && !s.after {
		s.stop()
		return context.Canceled
	}
	err := fn()
	if hit {
		s.stop()
	}
	return err
}

func (s *stopAt) SaveDocument(ctx context.Context, j *Job, d *Document) error {
	return s.call("SaveDocument", func() error { return s.Store.SaveDocument(ctx, j, d) })
}

func (s *stopAt) SavePassages(ctx context.Context, j *Job, ps []Passage) error {
	return s.call("SavePassages", func() error { return s.Store.SavePassages(ctx, j, ps) })
}

func (s *stopAt) SaveVectors(ctx context.Context, j *Job, seqs []int, vs []embed.Vector) error {
	return s.call("SaveVectors", func() error { return s.Store.SaveVectors(ctx, j, seqs, vs) })
}

func (s *stopAt) Publish(ctx context.Context, j *Job) error {
	return s.call("Publish", func() error { return s.Store.Publish(ctx, j) })
}

// TestPipelineCancel: ended at any step and run again, the corpus is that of an undisturbed run.
func TestPipelineCancel(t *testing.T) {
	dir := handbook(t)
	clean := newMemStore()
	_, err := newPipeline(clean).Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	for _, method := range []string{"SaveDocument", "SavePassages", "SaveVectors", "Publish"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", method, after), func(t *testing.T) {
				m := newMemStore()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := newPipeline(&stopAt{Store: m, method: method, after: after, n: 2, stop: cancel})
				p.Workers = 2
				_, err := p.Run(ctx, "", "c", []string{dir}, nil)
				if method != "SaveVectors" { // all passages may go in one batch
					require.ErrorIs(t, err, context.Canceled)
				}
				p = newPipeline(m)
				p.Lease = time.Hour // what the ended run held must have been given back
				_, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
				require.NoError(t, err)
				require.Equal(t, clean.rows(), m.rows())
			})
		}
	}
}

// TestPipelineTakesOver: what a dead worker left is taken up when its lease ends.
func TestPipelineTakesOver(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	_, _, err := p.Add(t.Context(), Candidate{Source: Source{Corpus: "c", Path: "a.txt"}}, []byte("Left behind."))
	require.NoError(t, err)
	job, err := m.Claim(t.Context(), "", "c", p.Index(), 50*time.Millisecond) // by a worker that dies
	require.NoError(t, err)
	report, err := p.Run(t.Context(), "", "c", []string{folder(t, "b.txt", "Another.")}, nil)
	require.NoError(t, err)
	for report.Documents < 2 { // the first run need not wait for what it wasn't given
		more, err := p.Run(t.Context(), "", "c", nil, nil)
		require.NoError(t, err)
		report.Documents += more.Documents
	}
	require.Len(t, m.rows(), 2)
	require.ErrorIs(t, m.SaveDocument(t.Context(), job, &Document{}), ErrLeaseLost, "the dead worker's late call")
}

// TestPipelineShares: several runs at once do each document once.
func TestPipelineShares(t *testing.T) {
	m := newMemStore()
	var pairs []string
	for i := range 40 {
		pairs = append(pairs, fmt.Sprintf("%02d.txt", i), fmt.Sprintf("Document %d says %s", i, sentences(2)))
	}
	dir := folder(t, pairs...)
	reports := make([]Report, 3)
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() {
			var err error
			reports[i], err = newPipeline(m).Run(t.Context(), "", "c", []string{dir}, nil)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	total := 0
	for _, r := range reports {
		total += r.Documents
		require.Empty(t, r.Failed)
	}
	require.Equal(t, 40, total)
	require.Len(t, m.live, 40)
}

func TestPipelineDeleteWhileRunning(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	dir := folder(t, "a.txt", "Alpha.", "b.txt", "Beta.")
	p.Embedder = &textEmbedder{before: func(call int, _ []string) error {
		if call == 1 {
			m.remove(Source{Corpus: "c", Path: "docs/a.txt"})
		}
		return nil
	}}
	_, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	rows := m.rows()
	require.Len(t, rows, 1)
	require.Equal(t, "docs/b.txt", rows[0].Path)
}

// TestPipelineEmbedderFails: a passing fault is retried, a lasting one parks its document only.
func TestPipelineEmbedderFails(t *testing.T) {
	m := newMemStore()
	now := time.Now()
	var mu sync.Mutex
	m.clock = func() time.Time { mu.Lock(); defer mu.Unlock(); now = now.Add(time.Second); return now } // retries come due at once
	p := newPipeline(m)
	p.Lease = time.Hour
	p.Embedder = &textEmbedder{before: func(call int, texts []string) error {
		if call == 1 {
			return errors.New("not yet ready")
		}
		return nil
	}, poison: "poison"}
	report, err := p.Run(t.Context(), "", "c", []string{folder(t, "a.txt", "Good words.", "b.txt", "The poison one.", "c.txt", "More words.")}, nil)
	require.NoError(t, err)
	require.Equal(t, 2, report.Documents)
	require.Len(t, report.Failed, 1)
	require.Equal(t, Internal, report.Failed[0].Class)
	require.Contains(t, report.Failed[0].Reason, "out of order")
	require.NotEmpty(t, report.Failed[0].Next)
}

func TestPipelineStoreFails(t *testing.T) {
	m := newMemStore()
	_, err := newPipeline(m).Run(t.Context(), "", "c", []string{folder(t, "a.txt", "Alpha.")}, nil)
	require.NoError(t, err)
	p := newPipeline(m)
	p.Splitter = &Splitter{MaxTokens: 99}
	_, err = p.Run(t.Context(), "", "c", []string{folder(t, "b.txt", "Beta.")}, nil)
	require.ErrorContains(t, err, "ingest: into corpus c")
	require.ErrorIs(t, err, ErrIndexMismatch)
	require.ErrorContains(t, err, "ragd ingest migrate-model --embed digest", "the next step")
	require.Len(t, m.versions, 1, "nothing was taken in")
}

func TestWalkUnreadable(t *testing.T) {
	p := newPipeline(newMemStore())
	p.Limits.FileBytes = 100
	dir := folder(t, "big.txt", strings.Repeat("x", 200), "ok.txt", "Fine.")
	report, err := p.Run(t.Context(), "", "c", []string{dir, filepath.Join(dir, "missing")}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Documents)
	require.Len(t, report.Failed, 2)
	classes := []Class{report.Failed[0].Class, report.Failed[1].Class}
	require.ElementsMatch(t, []Class{TooLarge, Unreadable}, classes)
}

// TestWalkNames: two folders of one name don't overwrite each other.
func TestWalkNames(t *testing.T) {
	m := newMemStore()
	a, b := folder(t, "x.txt", "In the first."), folder(t, "x.txt", "In the second.")
	_, err := newPipeline(m).Run(t.Context(), "", "c", []string{a, b, a}, nil)
	require.NoError(t, err)
	rows := m.rows()
	require.Len(t, rows, 2)
	require.ElementsMatch(t, []string{"docs/x.txt", filepath.ToSlash(filepath.Join(b, "x.txt"))}, []string{rows[0].Path, rows[1].Path})
}

// beaten is a store in which a heartbeat comes between the moment a version goes live and the moment its worker hears of it.
type beaten struct {
	*memStore
	lost chan struct{}
}

func (s beaten) Extend(ctx context.Context, job *Job, lease time.Duration) error {
	err := s.memStore.Extend(ctx, job, lease)
	if errors.Is(err, ErrLeaseLost) {
		select {
		case s.lost <- struct{}{}:
		case <-ctx.Done():
		}
	}
	return err
}

func (s beaten) Publish(ctx context.Context, job *Job) error {
	if err := s.memStore.Publish(ctx, job); err != nil {
		return err
	}
	<-s.lost
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond): // in which the heartbeat acts on it
		return nil
	}
}

// TestHeartbeatAfterPublish: a document that this run has made is counted as such, whatever a late heartbeat says.
func TestHeartbeatAfterPublish(t *testing.T) {
	p := newPipeline(beaten{newMemStore(), make(chan struct{})})
	p.Lease = 30 * time.Millisecond
	report, err := p.Run(t.Context(), "", "c", []string{handbook(t)}, nil)
	require.NoError(t, err)
	require.Equal(t, 5, report.Documents)
	require.Zero(t, report.Unchanged)
}
