package ingest

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

// manifestRow is one handed file: what must be found in it, or why it must be refused.
type manifestRow struct {
	Path     string   `json:"path"`
	Expect   string   `json:"expect"`
	Accept   []string `json:"accept"`
	Optional bool     `json:"optional_format"`
	WS       string   `json:"ws"`
	MustNot  []string `json:"must_not"`
	Phrases  []struct {
		Text string `json:"text"`
		Page int    `json:"page"`
	} `json:"phrases"`
}

// TestManifest reads every handed file: each is understood or refused as its
// row says, keeps the invariants of documents, and splits into sound passages.
func TestManifest(t *testing.T) {
	root := os.Getenv("RAGD_REFS")
	if root == "" {
		t.Skip("RAGD_REFS is not set: no handed files")
	}
	dir := filepath.Join(root, "data", "files")
	for _, row := range manifest(t, dir) {
		t.Run(row.Path, func(t *testing.T) {
			d, err := ParseFile(t.Context(), filepath.Join(dir, filepath.FromSlash(row.Path)), Limits{})
			row.check(t, d, err)
		})
	}
}

func manifest(t *testing.T, dir string) (rows []manifestRow) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "manifest.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row manifestRow
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		rows = append(rows, row)
	}
	require.NoError(t, lines.Err())
	return rows
}

func (row manifestRow) check(t *testing.T, d *Document, err error) {
	var e *Error
	outcome := "ok"
	if err != nil {
		require.True(t, errors.As(err, &e), "not an *Error: %v", err)
		require.Nil(t, e.Stack, "a reader panicked: %s", e.Stack)
		outcome = "error:" + string(e.Class)
	}
	fine := append([]string{row.Expect}, row.Accept...)
	if row.Optional {
		fine = append(fine, "error:unsupported")
	}
	if slices.Contains(fine, "warn:garbled") && d != nil && slices.Contains(d.Warnings, WarnGarbled) {
		return
	}
	if row.Expect != "any" || len(row.Accept) > 0 {
		require.Contains(t, fine, outcome, "%v", err)
	}
	if err != nil {
		return
	}
	requireSound(t, d)
	for _, s := range []*Splitter{{Ends: wordEnds}, {MaxTokens: 64}} {
		requireSplit(t, s, d)
	}
	whole := folded(d.Text, row.WS)
	for _, p := range row.Phrases {
		text := whole
		if p.Page > 0 {
			text = ""
			for _, page := range d.Pages {
				if page.Number == p.Page {
					text = folded(d.Text[page.Start:page.End], row.WS)
				}
			}
		}
		if !strings.Contains(text, folded(p.Text, row.WS)) {
			t.Errorf("misses %q (page %d)", p.Text, p.Page)
		}
	}
	for _, m := range row.MustNot {
		if strings.Contains(whole, folded(m, row.WS)) {
			t.Errorf("contains %q", m)
		}
	}
}

var (
	invisible = regexp.MustCompile("[\u00ad\u200b-\u200f\u2060\ufeff]")
	white     = regexp.MustCompile(`[\s\p{Z}]+`)
)

// folded is text as the manifest compares it: compatibility forms, without
// invisible characters, white space as one blank or none.
func folded(s, ws string) string {
	s = invisible.ReplaceAllString(norm.NFKC.String(s), "")
	if ws == "ignore" {
		return white.ReplaceAllString(s, "")
	}
	return white.ReplaceAllString(s, " ")
}
