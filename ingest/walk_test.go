package ingest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// paths lists the documents of a corpus, in order.
func (m *memStore) paths() (all []string) {
	for _, r := range m.rows() {
		all = append(all, r.Path)
	}
	return all
}

func TestWalkIgnores(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	p.Ignore = []string{"*.log"}
	dir := folder(t, "a.txt", "Alpha.", "x.log", "Log.", "sub/b.txt", "Beta.", "sub/secret.txt", "No.", "sub/deep/secret.txt", "No.", "sub/deep/c.txt", "Gamma.",
		"other/secret.txt", "Delta.", "build/d.txt", "No.", ".hidden.txt", "Hidden.", ".ragdignore", "build/\n", "sub/.ragdignore", "secret.txt\n# a comment\n")
	_, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"docs/a.txt", "docs/other/secret.txt", "docs/sub/b.txt", "docs/sub/deep/c.txt"}, m.paths())
	p.Hidden = true
	_, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Contains(t, m.paths(), "docs/.hidden.txt")
}

// TestMoves: a file that moves keeps its document; one that is copied does not take it away.
func TestMoves(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	dir := folder(t, "a.txt", "Alpha goes places.", "b.txt", "Beta stays here.")
	_, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	version := m.live[Source{Corpus: "c", Path: "docs/a.txt"}]
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, os.Rename(filepath.Join(dir, "a.txt"), filepath.Join(dir, "sub", "a.txt")))
	report, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Equal(t, []Note{{Path: "docs/sub/a.txt", Reason: "was docs/a.txt"}}, report.Moved)
	require.Equal(t, []string{"docs/b.txt", "docs/sub/a.txt"}, m.paths())
	require.Equal(t, version, m.live[Source{Corpus: "c", Path: "docs/sub/a.txt"}], "nothing was made anew")

	// Under another name it is read anew, as the same document.
	require.NoError(t, os.Rename(filepath.Join(dir, "sub", "a.txt"), filepath.Join(dir, "first.txt")))
	report, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Len(t, report.Moved, 1)
	require.Equal(t, []string{"docs/b.txt", "docs/first.txt"}, m.paths())
	require.Equal(t, Retired, m.versions[version].state, "the old version can still be cited")

	data, err := os.ReadFile(filepath.Join(dir, "b.txt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "copy.txt"), data, 0o644))
	report, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Empty(t, report.Moved)
	require.Equal(t, []string{"docs/b.txt", "docs/copy.txt", "docs/first.txt"}, m.paths())
}

// TestPrune removes documents of this folder's files only, and only when asked to.
func TestPrune(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	dir, other := folder(t, "a.txt", "Alpha.", "b.txt", "Beta."), folder(t, "c.txt", "Gamma.")
	_, err := p.Run(t.Context(), "", "c", []string{dir, other}, nil)
	require.NoError(t, err)
	_, _, err = p.Add(t.Context(), Candidate{Source: Source{Corpus: "c", Path: "docs/uploaded.txt"}}, []byte("Uploaded."))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "a.txt")))
	require.NoError(t, os.Remove(filepath.Join(other, "c.txt")))
	report, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Empty(t, report.Removed)
	p.Prune = true
	plan, err := p.Plan(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Len(t, plan.Removed, 1)
	require.Len(t, m.paths(), 4, "a plan does nothing")
	report, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Equal(t, []Note{{Path: "docs/a.txt", Reason: "its file is gone"}}, report.Removed)
	require.Equal(t, []string{"docs/b.txt", "docs/c.txt", "docs/uploaded.txt"}, m.paths())
	require.NoError(t, os.RemoveAll(dir)) // a drive that is not there is not a deletion
	_, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Contains(t, m.paths(), "docs/b.txt")
}

func TestPlan(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	dir := handbook(t)
	var would []string
	report, err := p.Plan(t.Context(), "", "c", []string{dir}, func(now Progress) {
		if now.State == Received {
			would = append(would, now.Path)
		}
	})
	require.NoError(t, err)
	require.Equal(t, 7, report.Documents)
	require.Len(t, would, 7)
	require.NotEmpty(t, report.Skipped)
	require.Empty(t, m.versions, "nothing was done")
	_, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	report, err = p.Plan(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Equal(t, 5, report.Unchanged)
	require.Equal(t, 2, report.Documents, "those that failed")
	require.NoError(t, os.Rename(filepath.Join(dir, "sub", "letter.txt"), filepath.Join(dir, "letter.txt")))
	report, err = p.Plan(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Equal(t, []Note{{Path: "docs/letter.txt", Reason: "was docs/sub/letter.txt"}}, report.Moved)
}

// TestWatch: new, changed, moved and deleted files and folders are followed; files that are as they were are not read again.
func TestWatch(t *testing.T) {
	m := newMemStore()
	p := newPipeline(m)
	p.Prune = true
	dir := folder(t, "a.txt", "Alpha one.", "sub/b.txt", "Beta one.")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reports := make(chan Report)
	ended := make(chan error, 1)
	go func() {
		ended <- Watcher{Pipeline: p, Corpus: "c", Paths: []string{dir}, Settle: 50 * time.Millisecond}.Watch(ctx, WatchEvents{
			Begin: func() {}, Progress: func(Progress) {},
			End: func(r Report, err error) {
				select {
				case reports <- r:
				case <-ctx.Done():
				}
			},
		})
	}()
	// until waits for the runs that bring the corpus to where it should be: an operating system tells of one change in one event or in several.
	until := func(what string, reached func() bool) Report {
		var last Report
		for {
			select {
			case last = <-reports:
			case <-time.After(20 * time.Second):
				require.FailNow(t, "not followed: "+what, "%v", m.paths())
			}
			if reached() {
				return last
			}
		}
	}
	has := func(words ...string) func() bool {
		return func() bool {
			var text strings.Builder
			for _, r := range m.rows() {
				text.WriteString(r.Path + ": " + r.Text + "\n")
			}
			for _, w := range words {
				if absent, ok := strings.CutPrefix(w, "!"); ok == strings.Contains(text.String(), strings.TrimPrefix(absent, "!")) {
					return false
				}
			}
			return true
		}
	}
	until("start", has("Alpha one", "Beta one"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("Alpha two."), 0o644))
	report := until("change", has("Alpha two", "!Alpha one"))
	require.Zero(t, report.Unchanged, "the other file was not looked into")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "new", "folder"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new", "folder", "c.txt"), []byte("Gamma."), 0o644))
	until("file in a new folder", has("Gamma"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new", "folder", "d.txt"), []byte("Delta."), 0o644))
	until("another one there", has("Delta"))
	require.NoError(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "renamed")))
	until("renamed folder", has("docs/renamed/b.txt", "!docs/sub/b.txt"))
	require.NoError(t, os.Rename(filepath.Join(dir, "renamed"), filepath.Join(dir, "sub")))
	until("folder that comes back", has("docs/sub/b.txt", "!docs/renamed/b.txt"))
	require.NoError(t, os.Remove(filepath.Join(dir, "a.txt")))
	until("deletion", has("!Alpha"))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// awayStore is a store whose database is away for the first calls of each method.
type awayStore struct {
	Store
	left map[string]int
}

func (s *awayStore) away(method string) error {
	if s.left[method]--; s.left[method] >= 0 {
		return errors.Join(errors.New("connection refused"), ErrUnavailable)
	}
	return nil
}

func (s *awayStore) Receive(ctx context.Context, c Candidate, content io.Reader) (Outcome, int64, error) {
	if err := s.away("Receive"); err != nil {
		_, _ = io.Copy(io.Discard, content) // some of it was read when the connection broke
		return 0, 0, err
	}
	return s.Store.Receive(ctx, c, content)
}

func (s *awayStore) Publish(ctx context.Context, job *Job) error {
	if err := s.away("Publish"); err != nil {
		return err
	}
	return s.Store.Publish(ctx, job)
}

func TestPatience(t *testing.T) {
	m := newMemStore()
	p := newPipeline(&awayStore{Store: m, left: map[string]int{"Receive": 2, "Publish": 1}})
	dir := folder(t, "a.txt", "Alpha.")
	report, err := p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Documents)
	p = newPipeline(&awayStore{Store: newMemStore(), left: map[string]int{"Receive": 1 << 30}})
	p.Patience = time.Nanosecond
	_, err = p.Run(t.Context(), "", "c", []string{dir}, nil)
	require.ErrorIs(t, err, ErrUnavailable)
}

func TestProgressEstimates(t *testing.T) {
	var c pace
	at := time.Now()
	p := Progress{Bytes: 1000, BytesKnown: 3000, Passages: 0, PassagesKnown: 100}
	p.measure(&c, at)
	require.Zero(t, p.Remaining, "nothing is known of the speed")
	p.Passages = 50
	p.measure(&c, at.Add(time.Second))
	require.Zero(t, p.PerSecond, "a second says nothing")
	p.measure(&c, at.Add(5*time.Second))
	require.InDelta(t, 10, p.PerSecond, 1e-9)
	require.Equal(t, 25*time.Second, p.Remaining, "300 passages are to be expected of 3,000 bytes, 50 are done")
	require.InDelta(t, 50.0/300, p.Done(), 1e-9)
	p.Walking = true
	p.measure(&c, at.Add(5*time.Second))
	require.Zero(t, p.Remaining, "while files are still being found nobody knows")
	p.Walking = false
	p.Passages = 60
	p.measure(&c, at.Add(45*time.Second))
	require.Zero(t, p.PerSecond, "what was half a minute ago does not count")
}

// changing is a store that is asked about a file, and the file changes.
type changing struct {
	*memStore
	then func(path string)
}

func (s changing) Preview(ctx context.Context, c Candidate) (Preview, error) {
	s.then(c.Path)
	return s.memStore.Preview(ctx, c)
}

// TestFileChangesMeanwhile: a file that grows while it is read, and one that goes, are no fault of the others.
func TestFileChangesMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs")
	require.NoError(t, os.Mkdir(dir, 0o755))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("a.txt", "The first file is small and stays.")
	write("b.txt", strings.Repeat("A long log. ", wholeFile/12+1))
	write("c.txt", "This one goes before it is read.")
	write("d.txt", "The last file is small and stays.")
	s := changing{newMemStore(), func(path string) {
		switch path {
		case "docs/a.txt":
			require.NoError(t, os.Remove(filepath.Join(dir, "c.txt")))
		case "docs/b.txt":
			write("b.txt", strings.Repeat("A short log. ", wholeFile/12+1))
		}
	}}
	report, err := newPipeline(s).Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	require.Equal(t, 2, report.Documents)
	require.Len(t, report.Failed, 1)
	require.Equal(t, "docs/b.txt", report.Failed[0].Path)
	require.Equal(t, Unreadable, report.Failed[0].Class)
	_, err = newPipeline(s).Run(t.Context(), "", "", []string{dir}, nil)
	require.ErrorContains(t, err, "a corpus needs a name")
}
