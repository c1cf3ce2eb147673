package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/llm/distill"
)

func TestStudentIsInForceUntilReverted(t *testing.T) {
	needModels(t)
	url, data := pgtest.New(t), t.TempDir()
	run := func(args ...string) string {
		cmd := ragd(t, t.Context(), url, args...)
		cmd.Env = append(cmd.Env, "RAGD_DATA="+data)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	run("ingest", "-c", "handbook", handbook(t))
	order := func() []string { // the passages that a question finds, best first
		shown := run("ask", "-c", "handbook", "--reranker", "none", "--max-tokens", "1", "--explain", "What is the hotel limit per night in Oslo?")
		return regexp.MustCompile(`examples/\S+ p\d+`).FindAllString(shown[strings.Index(shown, "passages read"):], -1)
	}
	untrained := order()
	require.Greater(t, len(untrained), 5)

	// What a run would have learned where the words mislead: the farthest passage first.
	weights, err := (&distill.Ranker{Dim: 384, Weights: [distill.Features]float32{-1, 0, -1, -1}}).Marshal()
	require.NoError(t, err)
	slot := rankingSlot("bge-small-en-v1.5-int8", "", "handbook")
	students := distill.Registry{Dir: filepath.Join(data, "students")}
	require.NoError(t, students.Add(distill.Entry{ID: "turned", Slot: slot, Gain: "gains", Pass: true}, map[string][]byte{rankerFile: weights}))
	require.Contains(t, run("distill", "install", "turned"), "in force: turned for "+slot)
	require.Regexp(t, `turned +in force +`+slot, run("distill", "list"))
	require.NotEqual(t, untrained[0], order()[0], "the student ranks")
	require.Contains(t, run("distill", "revert"), "the untrained way is in force again")
	require.Equal(t, untrained, order())
	require.Regexp(t, `turned +not in force`, run("distill", "list"))
}
