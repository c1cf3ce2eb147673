//go:build unix

package ingest_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/ingest"
	"ragd/internal/pgtest"
	"ragd/store"
)

// The environment of the process that is killed.
const (
	childURL  = "RAGD_TEST_INGEST_URL"
	childDir  = "RAGD_TEST_INGEST_DIR"
	childKill = "RAGD_TEST_INGEST_KILL" // "Publish after 2": at the second call of Publish, once it has taken effect
)

// killer is a store whose process dies at the n-th call of a method.
type killer struct {
	ingest.Store
	method, when string
	left         atomic.Int64
}

func (k *killer) call(method string, fn func() error) error {
	hit := method == k.method && k.left.Add(-1) == 0
	if hit && k.when == "before" {
		die()
	}
	err := fn()
	if hit {
		die()
	}
	return err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal arrives
}

func (k *killer) Receive(ctx context.Context, c ingest.Candidate, r io.Reader) (o ingest.Outcome, v int64, err error) {
	err = k.call("Receive", func() error { o, v, err = k.Store.Receive(ctx, c, r); return err })
	return o, v, err
}

func (k *killer) Claim(ctx context.Context, tenant, corpus string, index ingest.Index, d time.Duration) (j *ingest.Job, err error) {
	err = k.call("Claim", func() error { j, err = k.Store.Claim(ctx, tenant, corpus, index, d); return err })
	return j, err
}

func (k *killer) SaveDocument(ctx context.Context, j *ingest.Job, d *ingest.Document) error {
	return k.call("SaveDocument", func() error { return k.Store.SaveDocument(ctx, j, d) })
}

func (k *killer) SavePassages(ctx context.Context, j *ingest.Job, ps []ingest.Passage) error {
	return k.call("SavePassages", func() error { return k.Store.SavePassages(ctx, j, ps) })
}

func (k *killer) SaveVectors(ctx context.Context, j *ingest.Job, seqs []int, vs []embed.Vector) error {
	return k.call("SaveVectors", func() error { return k.Store.SaveVectors(ctx, j, seqs, vs) })
}

func (k *killer) Publish(ctx context.Context, j *ingest.Job) error {
	return k.call("Publish", func() error { return k.Store.Publish(ctx, j) })
}

func (k *killer) Shadow(ctx context.Context, tenant, corpus string, to ingest.Index) (shadow ingest.Shadow, err error) {
	err = k.call("Shadow", func() error { shadow, err = k.Store.Shadow(ctx, tenant, corpus, to); return err })
	return shadow, err
}

func (k *killer) Switch(ctx context.Context, tenant, corpus string, to ingest.Index) (switched bool, err error) {
	err = k.call("Switch", func() error { switched, err = k.Store.Switch(ctx, tenant, corpus, to); return err })
	return switched, err
}

func (k *killer) Fail(ctx context.Context, j *ingest.Job, f ingest.Failure) error {
	return k.call("Fail", func() error { return k.Store.Fail(ctx, j, f) })
}

// TestKillChild is not a test of its own: it is the process that the tests below kill.
func TestKillChild(t *testing.T) {
	url := os.Getenv(childURL)
	if url == "" {
		return
	}
	s, err := store.Open(t.Context(), url, nil)
	require.NoError(t, err)
	defer s.Close()
	k := &killer{Store: s}
	if spec := strings.Fields(os.Getenv(childKill)); len(spec) == 3 {
		n, err := strconv.Atoi(spec[2])
		require.NoError(t, err)
		k.method, k.when = spec[0], spec[1]
		k.left.Store(int64(n))
	}
	run(t, k, os.Getenv(childDir))
}

// pipeline is what every process of these tests works with; nextPipeline is for another index.
func pipeline(s ingest.Store) *ingest.Pipeline {
	return &ingest.Pipeline{Store: s, Embedder: &ingest.TextEmbedder{}, Splitter: &ingest.Splitter{MaxTokens: 60}, Lease: 500 * time.Millisecond, Workers: 2}
}

func nextPipeline(s ingest.Store) *ingest.Pipeline {
	p := pipeline(s)
	p.Embedder, p.Splitter = &ingest.OtherEmbedder{}, &ingest.Splitter{MaxTokens: 90}
	return p
}

func run(t *testing.T, s ingest.Store, dir string) {
	var err error
	if dir == "migrate" {
		_, err = nextPipeline(s).Migrate(t.Context(), "", "c", nil)
	} else {
		_, err = pipeline(s).Run(t.Context(), "", "c", []string{dir}, nil)
	}
	require.NoError(t, err)
}

// child runs the ingestion in a process of its own and reports whether it ended by itself.
func child(t *testing.T, url, dir, kill string, after time.Duration) (ended bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if after > 0 {
		ctx, cancel = context.WithTimeout(ctx, after) // exec kills with SIGKILL
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKillChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), childURL+"="+url, childDir+"="+dir, childKill+"="+kill)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState != nil && cmd.ProcessState.Success() { // it may end just when it is to be killed
		return true
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "%v\n%s", err, out)
	return false
}

// corpus is all that can be found, row for row, but for the ids that a database hands out.
func corpus(t *testing.T, url string) (live, failed []string) {
	s, err := store.Open(t.Context(), url, nil)
	require.NoError(t, err)
	defer s.Close()
	lines := func(query string) (all []string) {
		rows, err := s.Pool().Query(t.Context(), query)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			all = append(all, line)
		}
		require.NoError(t, rows.Err())
		return all
	}
	live = lines(`SELECT concat_ws('|', d.path, v.kind, v.title, v.lang, p.seq, p.start_byte, p.end_byte, p.page, p.tokens, p.lang, p.heading, p.context, p.text,
			p.terms::text, p.counts::text, p.length, e.embedding::text)
		FROM documents d JOIN document_versions v ON v.tenant = d.tenant AND v.id = d.live_version JOIN passages p ON p.tenant = v.tenant AND p.version = v.id
		JOIN passage_vectors e ON e.tenant = p.tenant AND e.passage = p.id ORDER BY d.path, p.seq`)
	failed = lines(`SELECT concat_ws('|', d.path, v.error_class) FROM documents d JOIN document_versions v ON v.tenant = d.tenant AND v.document = d.id WHERE v.state = 'failed' ORDER BY d.path`)
	require.Equal(t, []string{"0", "0", "0"}, lines(`SELECT count(*)::text FROM document_versions WHERE state NOT IN ('live', 'failed', 'retired')
		UNION ALL SELECT count(*)::text FROM passages p JOIN document_versions v ON v.tenant = p.tenant AND v.id = p.version WHERE v.state NOT IN ('live', 'retired')
		UNION ALL SELECT count(*)::text FROM staged_vectors`), "work left over")
	return live, failed
}

// TestKilledAtEveryStep: SIGKILL before and after each step that is stored, then a restart; the corpus is that of an undisturbed run.
func TestKilledAtEveryStep(t *testing.T) {
	dir := ingest.Handbook(t)
	cleanURL := pgtest.New(t)
	require.True(t, child(t, cleanURL, dir, "", 0))
	wantLive, wantFailed := corpus(t, cleanURL)
	require.Greater(t, len(wantLive), 10)
	require.Len(t, wantFailed, 2)
	for _, method := range []string{"Receive", "Claim", "SaveDocument", "SavePassages", "SaveVectors", "Publish", "Fail"} {
		for _, when := range []string{"before", "after"} {
			t.Run(method+"/"+when, func(t *testing.T) {
				t.Parallel() // a restart mostly waits for the lease of the dead
				url := pgtest.New(t)
				n := 2
				if method == "SaveVectors" { // few passages may go in one batch
					n = 1
				}
				require.False(t, child(t, url, dir, fmt.Sprintf("%s %s %d", method, when, n), 0), "it was to be killed")
				require.True(t, child(t, url, dir, "", 0))
				live, failed := corpus(t, url)
				require.Equal(t, wantLive, live)
				require.Equal(t, wantFailed, failed)
			})
		}
	}
}

// TestKilledAtRandom kills the process again and again, whatever it is doing.
func TestKilledAtRandom(t *testing.T) {
	dir := ingest.Handbook(t)
	url := pgtest.New(t)
	rng := rand.New(rand.NewPCG(3, 4))
	kills := 0
	for round := range 60 {
		after := time.Duration(30+rng.IntN(150*(1+round/2))) * time.Millisecond
		if round == 59 {
			after = 0
		}
		if child(t, url, dir, "", after) {
			break
		}
		kills++
	}
	t.Logf("killed %d times", kills)
	cleanURL := pgtest.New(t)
	require.True(t, child(t, cleanURL, dir, "", 0))
	wantLive, wantFailed := corpus(t, cleanURL)
	live, failed := corpus(t, url)
	require.Equal(t, wantLive, live)
	require.Equal(t, wantFailed, failed)
}
