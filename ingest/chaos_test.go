//go:build unix

package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/ingest"
	"ragd/internal/pgtest"
	"ragd/store"
)

// The environment of a chaos worker, beside childURL.
const chaosWorker = "RAGD_TEST_CHAOS_WORKER"

// TestChaosWorker is not a test of its own: it is a process that works on what waits until it is killed, as a server does.
func TestChaosWorker(t *testing.T) {
	if os.Getenv(chaosWorker) == "" {
		return
	}
	s, err := store.Open(t.Context(), os.Getenv(childURL), nil)
	require.NoError(t, err)
	defer s.Close()
	for {
		_, err := pipeline(s).Run(t.Context(), "", "c", nil, nil)
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond) // a server waits for its next look as well
	}
}

// chaos is a corpus under attack, and what it should come to.
type chaos struct {
	t    *testing.T
	url  string
	s    *store.Store
	mu   sync.Mutex
	want map[string]string // path -> text of the documents that should be there in the end
}

// meddle uploads, replaces, moves and deletes documents until ctx ends. Each meddler has paths of its own, so that the last word on each is known.
func (c *chaos) meddle(ctx context.Context, who int) {
	rng := rand.New(rand.NewPCG(uint64(who), 9))
	p := pipeline(c.s)
	for n := 0; ctx.Err() == nil; n++ {
		path := fmt.Sprintf("m%d/%d.txt", who, rng.IntN(12))
		if rng.IntN(4) == 0 {
			d, err := c.s.DocumentByPath(c.t.Context(), "", "c", path)
			if err == nil {
				err = c.s.DeleteDocument(c.t.Context(), "", d.ID)
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				c.t.Errorf("delete: %v", err)
			}
			c.set(path, "")
			continue
		}
		text := fmt.Sprintf("# Note %d\n\n%s", n, strings.Repeat(fmt.Sprintf("Meddler %d writes line %d of these notes. ", who, n), 1+rng.IntN(30)))
		if _, _, err := p.Add(c.t.Context(), ingest.Candidate{Source: ingest.Source{Corpus: "c", Path: path}}, []byte(text)); err != nil {
			c.t.Errorf("upload: %v", err)
		}
		c.set(path, text)
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
	}
}

func (c *chaos) set(path, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want[path] = text; text == "" {
		delete(c.want, path)
	}
}

// worker runs a worker process again and again, each time for a random while until SIGKILL, and counts the kills.
func (c *chaos) worker(ctx context.Context, seed uint64) (kills int) {
	rng := rand.New(rand.NewPCG(seed, 5))
	for ctx.Err() == nil {
		life, cancel := context.WithTimeout(ctx, time.Duration(100+rng.IntN(1500))*time.Millisecond)
		cmd := exec.CommandContext(life, os.Args[0], "-test.run=^TestChaosWorker$", "-test.count=1") // killed with SIGKILL at the end of its life
		cmd.Env = append(os.Environ(), childURL+"="+c.url, chaosWorker+"=1")
		out, err := cmd.CombinedOutput()
		cancel()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ok || !status.Signaled() {
			c.t.Errorf("a worker ended by itself: %v\n%s", err, out)
			return kills
		}
		kills++
	}
	return kills
}

// TestChaos kills workers at random while documents are uploaded, replaced and deleted and a folder is ingested; two workers share the work all the
// time. In the end the corpus is, row for row, that of one undisturbed run over the same documents. RAGD_TEST_FULL=1 goes on for three minutes.
func TestChaos(t *testing.T) {
	long := 5 * time.Second
	if os.Getenv("RAGD_TEST_FULL") != "" {
		long = 3 * time.Minute
	}
	c := &chaos{t: t, url: pgtest.New(t), want: make(map[string]string)}
	s, err := store.Open(t.Context(), c.url, nil)
	require.NoError(t, err)
	defer s.Close()
	c.s = s
	dir := ingest.Handbook(t)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var group sync.WaitGroup
	kills := make([]int, 3) // of two workers and of those who read the folder
	for i := range 2 {
		group.Go(func() { kills[i] = c.worker(ctx, uint64(i)) })
		group.Go(func() { c.meddle(ctx, i) })
	}
	group.Go(func() { // folders come the other way, through a process that dies as well
		for ctx.Err() == nil && !child(t, c.url, dir, "", time.Second) {
			kills[2]++
		}
	})
	group.Wait()
	if t.Failed() {
		return
	}
	// A document whose workers died five times in a row is parked, as it should be; that is not what this test is about.
	_, err = s.Retry(t.Context(), "", "c", 0)
	require.NoError(t, err)
	// One run to the end; it waits for the leases of the dead.
	require.True(t, child(t, c.url, dir, "", 0))
	for {
		jobs, err := s.Jobs(t.Context(), "", nil, 0, 100)
		require.NoError(t, err)
		if !anyWaits(jobs) {
			break
		}
		_, err = pipeline(s).Run(t.Context(), "", "c", nil, nil)
		require.NoError(t, err)
	}
	t.Logf("killed %d times; %d documents of meddlers left", kills[0]+kills[1]+kills[2], len(c.want))
	require.Greater(t, kills[0]+kills[1]+kills[2], 3)

	clean := pgtest.New(t)
	other, err := store.Open(t.Context(), clean, nil)
	require.NoError(t, err)
	defer other.Close()
	for path, text := range c.want {
		_, _, err := pipeline(other).Add(t.Context(), ingest.Candidate{Source: ingest.Source{Corpus: "c", Path: path}}, []byte(text))
		require.NoError(t, err)
	}
	run(t, other, dir)
	wantLive, wantFailed := corpus(t, clean)
	live, failed := corpus(t, c.url)
	require.Equal(t, wantLive, live)
	require.Equal(t, wantFailed, failed)
	require.Equal(t, statistics(t, other), statistics(t, s), "the statistics of the lexical index")
}

func anyWaits(jobs []store.Job) bool {
	for _, j := range jobs {
		if j.State != ingest.Failed {
			return true
		}
	}
	return false
}

// statistics is what BM25 knows: passages and terms by language, and the document frequency of every term.
func statistics(t *testing.T, s *store.Store) (lines []string) {
	rows, err := s.Pool().Query(t.Context(), `SELECT concat_ws(' ', lang, passages, terms) FROM corpus_languages
		UNION ALL SELECT concat_ws(' ', term, sum(count)) FROM postings GROUP BY term ORDER BY 1`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(t, rows.Err())
	return lines
}

// TestMigrationKilled: a process that changes the corpus's model is killed before and after each step; the next one completes it, and until then the
// old index is whole.
func TestMigrationKilled(t *testing.T) {
	dir := ingest.Handbook(t)
	clean := pgtest.New(t)
	fresh, err := store.Open(t.Context(), clean, nil)
	require.NoError(t, err)
	defer fresh.Close()
	_, err = nextPipeline(fresh).Run(t.Context(), "", "c", []string{dir}, nil)
	require.NoError(t, err)
	want, _ := corpus(t, clean)
	for _, kill := range []string{"Shadow after 1", "SavePassages before 2", "Publish after 2", "Switch before 1", "Switch after 1"} {
		t.Run(kill, func(t *testing.T) {
			url := pgtest.New(t)
			s, err := store.Open(t.Context(), url, nil)
			require.NoError(t, err)
			defer s.Close()
			run(t, s, dir)
			old := livePassages(t, s)
			require.False(t, child(t, url, "migrate", kill, 0), "it was to be killed")
			if kill != "Switch after 1" {
				require.Equal(t, old, livePassages(t, s))
			}
			require.True(t, child(t, url, "migrate", "", 0))
			live, _ := corpus(t, url)
			require.Equal(t, want, live)
			// The failed documents are of the new index as well: nothing of the old one is left to be worked on.
			_, err = nextPipeline(s).Run(t.Context(), "", "c", []string{dir}, nil)
			require.NoError(t, err)
		})
	}
}

func livePassages(t *testing.T, s *store.Store) (n int) {
	require.NoError(t, s.Pool().QueryRow(t.Context(), `SELECT count(*) FROM passage_vectors v JOIN passages p ON p.tenant = v.tenant AND p.id = v.passage
		JOIN document_versions d ON d.tenant = p.tenant AND d.id = p.version WHERE d.state = 'live'`).Scan(&n))
	return n
}

// TestServerRestartsDuringARun: PostgreSQL is killed under a running ingestion and comes back; nobody lends a hand, and the corpus is complete.
func TestServerRestartsDuringARun(t *testing.T) {
	cluster, dir := ownCluster(t)
	s, err := store.Open(t.Context(), cluster.URL(), nil)
	require.NoError(t, err)
	defer s.Close()
	folder := filepath.Join(t.TempDir(), "docs")
	require.NoError(t, os.Mkdir(folder, 0o755))
	const files = 60
	for i := range files {
		text := strings.Repeat(fmt.Sprintf("File %d says the same thing many times. ", i), 40)
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.txt", i)), []byte(text), 0o644))
	}
	p := pipeline(s)
	killed := 0
	report, err := p.Run(t.Context(), "", "c", []string{folder}, func(now ingest.Progress) {
		if now.Documents >= 10*(killed+1) && killed < 2 {
			killed++
			killServer(t, dir)
		}
	})
	require.NoError(t, err)
	require.Equal(t, 2, killed)
	require.Empty(t, report.Failed)
	var live int
	require.NoError(t, s.Pool().QueryRow(t.Context(), `SELECT count(*) FROM documents WHERE live_version IS NOT NULL`).Scan(&live))
	require.Equal(t, files, live)
}
