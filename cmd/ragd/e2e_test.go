package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/catalog"
	"ragd/examples"
	"ragd/internal/modeltest"
	"ragd/internal/pgtest"
	"ragd/store"
)

// TestMain lets the test binary be ragd itself: the end-to-end tests run it as a process of its own, which they can kill.
func TestMain(m *testing.M) {
	if os.Getenv("RAGD_TEST_MAIN") == "1" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// smallModels are what the end-to-end tests answer and search with.
var smallModels = []string{"SmolLM2-135M-Instruct.Q4_1", "bge-small-en-v1.5-int8", "ms-marco-MiniLM-L12-int8"}

func needModels(t *testing.T) {
	t.Helper()
	for _, name := range smallModels {
		modeltest.Path(t, name)
	}
}

// ragd returns a command that runs the program in its own process on the database at url.
func ragd(t *testing.T, ctx context.Context, url string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), "RAGD_TEST_MAIN=1", "DATABASE_URL="+url, "RAGD_MODEL="+smallModels[0], "RAGD_OFFLINE=true", "RAGD_DATA="+t.TempDir(), "RAGD_CONFIG="+filepath.Join(t.TempDir(), "none.yaml"))
	return cmd
}

func handbook(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "examples")
	require.NoError(t, os.CopyFS(folder, examples.Files()))
	return folder
}

// rows is everything of a corpus that a reader can see, in a stable form.
func rows(t *testing.T, url string) string {
	t.Helper()
	db, err := store.Open(t.Context(), url, nil)
	require.NoError(t, err)
	defer db.Close()
	var all strings.Builder
	for _, query := range []string{
		`SELECT string_agg(d.path || ' ' || v.state || ' ' || encode(v.sha256, 'hex') || ' ' || v.passages, E'\n' ORDER BY d.path)
			FROM documents d JOIN document_versions v ON v.tenant = d.tenant AND v.document = d.id WHERE v.state = 'live'`,
		`SELECT string_agg(d.path || ' ' || p.start_byte || ' ' || p.end_byte || ' ' || p.page || ' ' || md5(p.text) || ' ' || md5(e.embedding::text), E'\n' ORDER BY d.path, p.start_byte)
			FROM passages p JOIN document_versions v ON v.tenant = p.tenant AND v.id = p.version JOIN documents d ON d.tenant = v.tenant AND d.id = v.document
			JOIN passage_vectors e ON e.tenant = p.tenant AND e.passage = p.id`,
	} {
		var text *string
		require.NoError(t, db.Pool().QueryRow(t.Context(), query).Scan(&text))
		if text != nil {
			all.WriteString(*text + "\n\n")
		}
	}
	return all.String()
}

func TestIngestKilledAndRepeatedGivesTheSameCorpus(t *testing.T) {
	needModels(t)
	folder := handbook(t)
	clean := pgtest.New(t)
	out, err := ragd(t, t.Context(), clean, "ingest", folder).CombinedOutput()
	require.NoError(t, err, string(out))
	want := rows(t, clean)
	require.Contains(t, want, "examples/travel-policy.pdf live")

	url := pgtest.New(t)
	for attempt := 0; attempt < 6; attempt++ {
		// Later and later kills fall into loading, parsing, embedding and publishing; which one exactly does not matter for what must hold.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(100+250*attempt)*time.Millisecond)
		_ = ragd(t, ctx, url, "ingest", folder).Run() // killed by SIGKILL, or done
		cancel()
	}
	out, err = ragd(t, t.Context(), url, "ingest", folder).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, want, rows(t, url))

	out, err = ragd(t, t.Context(), url, "ingest", folder).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `default +0 +0 +5 `, string(out), "five are unchanged")
}

func TestAskCitesAndAbstains(t *testing.T) {
	needModels(t)
	url := pgtest.New(t)
	out, err := ragd(t, t.Context(), url, "ingest", "-c", "handbook", handbook(t)).CombinedOutput()
	require.NoError(t, err, string(out))

	var stderr bytes.Buffer
	cmd := ragd(t, t.Context(), url, "ask", "-c", "handbook", "--json", "At", "how", "much", "per", "kilometre", "is", "the", "use", "of", "a", "private", "car", "reimbursed?")
	cmd.Stderr = &stderr
	out, err = cmd.Output()
	require.NoError(t, err, stderr.String())
	var answer struct {
		Text      string
		Abstained bool
		Citations []struct {
			Path  string
			Page  int
			Quote string
		}
	}
	require.NoError(t, json.Unmarshal(out, &answer), string(out))
	require.False(t, answer.Abstained, string(out))
	require.NotEmpty(t, answer.Citations, string(out))
	require.Equal(t, "examples/travel-policy.pdf", answer.Citations[0].Path)
	require.Equal(t, 2, answer.Citations[0].Page)
	require.Contains(t, answer.Text, "5.30 NOK")

	cmd = ragd(t, t.Context(), url, "ask", "-c", "handbook", "Who wrote Pride and Prejudice?")
	out, err = cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "The documents do not contain the answer.")
}

func TestErrorsSayWhatToDo(t *testing.T) {
	needModels(t)
	for _, c := range []struct {
		name string
		url  string
		args []string
		want string
	}{
		{"database down", "postgres://ragd@127.0.0.1:1/ragd?connect_timeout=1", []string{"ask", "x"}, "127.0.0.1"},
		{"unknown model", "", []string{"--model", "gpt-17", "models", "probe", "gpt-17"}, "ragd models list"},
		{"no such file", "", []string{"models", "probe", "./nothing.gguf"}, "nothing.gguf"},
		{"missing offline", "", []string{"models", "probe", "tiny-random-llama-1M-f16"}, "--offline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, have := mustLookup(t, "tiny-random-llama-1M-f16").Path(); have && c.name == "missing offline" {
				t.Skip("the model is on this machine")
			}
			out, err := ragd(t, t.Context(), c.url, c.args...).CombinedOutput()
			require.Error(t, err, string(out))
			require.Contains(t, string(out), c.want)
			require.NotContains(t, string(out), "goroutine ")
		})
	}
}

func mustLookup(t *testing.T, name string) catalog.Model {
	t.Helper()
	m, ok := catalog.Lookup(name)
	require.True(t, ok, name)
	return m
}

func TestCorruptModelIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken.gguf")
	require.NoError(t, os.WriteFile(path, []byte("GGUF\x03\x00\x00\x00 and then nothing of use"), 0o600))
	out, err := ragd(t, t.Context(), "", "models", "probe", path).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "broken.gguf")
	require.NotContains(t, string(out), "goroutine ")
}
