//go:build linux

package ingest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/ingest"
	"ragd/internal/pgtest"
	"ragd/store"
)

// The environment of the process whose memory is measured, beside childURL and childDir.
const memoryChild = "RAGD_TEST_MEMORY"

// TestMemoryChild is not a test of its own: it is the process that TestMemory measures.
func TestMemoryChild(t *testing.T) {
	if os.Getenv(memoryChild) == "" {
		return
	}
	s, err := store.Open(t.Context(), os.Getenv(childURL), nil)
	require.NoError(t, err)
	defer s.Close()
	p := pipeline(s)
	p.Splitter = &ingest.Splitter{MaxTokens: 320}
	p.Lease = time.Minute // a lease that is lost on a busy machine would have the document worked on twice at a time
	report, err := p.Run(t.Context(), "", "c", []string{os.Getenv(childDir)}, nil)
	require.NoError(t, err)
	require.Empty(t, report.Failed)
	fmt.Printf("%d documents, %d passages\n", report.Documents, report.Passages)
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	fmt.Println(string(status[bytes.Index(status, []byte("VmHWM:")):]))
}

// raceFactor is how much more memory a test takes under the race detector.
var raceFactor int64 = 1

// TestMemory: a large text and a long PDF go through the whole pipeline, and the process never holds much more than the text. RAGD_TEST_FULL=1 takes
// 200 MiB of text in one file and 1,000 pages.
func TestMemory(t *testing.T) {
	text, pages, limit := 4<<20, 100, int64(400<<20)
	if os.Getenv("RAGD_TEST_FULL") != "" {
		text, pages, limit = 200<<20, 1000, 1<<30
	}
	limit *= raceFactor
	for name, write := range map[string]func(dir string){
		"text": func(dir string) { writeText(t, filepath.Join(dir, "long.txt"), text) },
		"pdf": func(dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "long.pdf"), ingest.LongPDF(pages), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(dir)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryChild$", "-test.count=1", "-test.timeout=30m")
			// The same limit that ragd sets itself.
			cmd.Env = append(os.Environ(), memoryChild+"=1", childURL+"="+pgtest.New(t), childDir+"="+dir, "GOMEMLIMIT=640MiB")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			// Not the child's rusage: that begins with what this process had when it forked.
			var kib int64
			_, hwm, _ := strings.Cut(string(out), "VmHWM:")
			_, err = fmt.Sscanf(hwm, "%d kB", &kib)
			require.NoError(t, err)
			peak := kib << 10
			t.Logf("peak memory %d MiB", peak>>20)
			require.Less(t, peak, limit)
		})
	}
}

// writeText writes n bytes of sentences and paragraphs.
func writeText(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriter(f)
	rng := rand.New(rand.NewPCG(7, 8))
	for written := 0; written < n; {
		m, err := fmt.Fprintf(w, "Article %d of the agreement says that item %d is due on day %d and costs %d in all. ", rng.IntN(900), rng.IntN(90_000), rng.IntN(366), rng.IntN(1_000_000))
		require.NoError(t, err)
		written += m
		if rng.IntN(6) == 0 {
			_, err := w.WriteString("\n\n")
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
}
