package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/internal/modeltest"
	"ragd/internal/pgtest"
)

// session runs ragd again and again on one database.
type session struct {
	*testing.T
	url string
}

// run returns what a command that succeeds prints, on both streams.
func (s session) run(args ...string) string {
	s.Helper()
	out, err := ragd(s.T, s.Context(), s.url, args...).CombinedOutput()
	require.NoError(s.T, err, string(out))
	return string(out)
}

// fails returns what a command that fails prints.
func (s session) fails(args ...string) string {
	s.Helper()
	out, err := ragd(s.T, s.Context(), s.url, args...).CombinedOutput()
	require.Error(s.T, err, string(out))
	return string(out)
}

func TestIngestCommands(t *testing.T) {
	needModels(t)
	s := session{t, pgtest.New(t)}
	require.Contains(t, s.run("ingest", "status"), "there is no corpus yet")
	folder := handbook(t)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "broken.pdf"), []byte("%PDF-1.4 broken"), 0o600))
	plan := s.run("ingest", "-c", "hr", "--dry-run", "--ignore", "*.md", folder)
	require.Contains(t, plan, "would ingest  examples/travel-policy.pdf")
	require.Contains(t, plan, "ignored by a pattern")
	require.Contains(t, plan, "nothing was done")
	require.Contains(t, s.run("ingest", "status"), "there is no corpus yet")

	out := s.fails("ingest", "-c", "hr", folder)
	require.Regexp(t, `hr +5 +\d+ +0 +0 +0 +0 +1 `, out, "the table")
	require.Contains(t, out, "failed examples/broken.pdf")
	status := s.run("ingest", "status", "-c", "hr")
	require.Regexp(t, `hr +5 +\d+ +0 +1 +0 +bge-small-en-v1.5-int8`, status)
	require.Regexp(t, `failed +\d+ +hr/examples/broken.pdf\n.*\(corrupt\)`, status)
	require.Contains(t, s.fails("ingest", "retry", "-c", "hr"), "failed again")

	local := s.run("ingest", "explain", filepath.Join(folder, "travel-policy.pdf"))
	require.Contains(t, local, "=== page 1: bytes [0,")
	require.Contains(t, local, "--- passage 0: bytes [0,")
	stored := s.run("ingest", "explain", "-c", "hr", "examples/travel-policy.pdf")
	_, wanted, _ := strings.Cut(local, "\n")
	wanted, _, _ = strings.Cut(wanted, "\n\nsplit for")
	require.Contains(t, stored, strings.TrimSpace(wanted), "an ingested document was read and split as the file is now")
	require.Contains(t, s.fails("ingest", "explain", "-c", "hr", "nowhere.txt"), "neither a file here nor a document")

	require.Contains(t, s.run("ingest", "rm", "-c", "hr", "examples/broken.pdf"), "deleted hr/examples/broken.pdf")
	require.Contains(t, s.run("ingest", "cancel", "-c", "hr"), "0 documents were taken out of work")
	require.NoError(t, os.Mkdir(filepath.Join(folder, "travel"), 0o700))
	require.NoError(t, os.Rename(filepath.Join(folder, "travel-policy.pdf"), filepath.Join(folder, "travel", "travel-policy.pdf")))
	require.NoError(t, os.Remove(filepath.Join(folder, "broken.pdf")))
	require.Contains(t, s.run("ingest", "-c", "hr", folder), "moved examples/travel/travel-policy.pdf: was examples/travel-policy.pdf")
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "travel")))
	require.Contains(t, s.run("ingest", "-c", "hr", "--prune", folder), "deleted examples/travel/travel-policy.pdf: its file is gone")
	require.Contains(t, s.run("ingest", "rm", "-c", "hr", "examples/"), "deleted hr/examples/")
}

// The second model of these tests is the first under another name: what counts is that it is another.
func TestMigrateModelCommand(t *testing.T) {
	needModels(t)
	s := session{t, pgtest.New(t)}
	s.run("ingest", "-c", "handbook", handbook(t))
	data, err := os.ReadFile(modeltest.Path(t, smallModels[1]))
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other-embedder.gguf")
	require.NoError(t, os.WriteFile(other, data, 0o600))
	refused := s.fails("--embedder", other, "ingest", "-c", "handbook", handbook(t))
	require.Contains(t, refused, "ragd ingest migrate-model --embed other-embedder")

	require.Contains(t, s.run("ingest", "migrate-model", "--embed", other), "corpus handbook is now made with other-embedder, before with bge-small-en-v1.5-int8")
	require.Contains(t, s.run("ingest", "migrate-model", "--embed", other), "is made with other-embedder already")
	require.Contains(t, s.run("ingest", "status"), "other-embedder")
	question := []string{"ask", "-c", "handbook", "--json", "What is the hotel limit per night in Oslo?"}
	require.Contains(t, s.fails(append([]string{"--embedder", smallModels[1]}, question...)...), "--embedder other-embedder", "a question of the old model")
	var stderr bytes.Buffer
	cmd := ragd(t, t.Context(), s.url, append([]string{"--embedder", other}, question...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Contains(t, string(out), "travel-policy.pdf")
	// Back again; without --embedder commands take the model that the corpus is made with.
	require.Contains(t, s.run("ingest", "migrate-model", "--embed", smallModels[1]), "now made with bge-small-en-v1.5-int8")
	s.run("ingest", "-c", "handbook", handbook(t))
}

// Names come from people's disks: none may speak to the terminal.
func TestShown(t *testing.T) {
	require.Equal(t, "a\uFFFD[31mb\uFFFDc\uFFFDd é", shown("a\x1b[31mb\nc\u202ed é"))
}
