package eval

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ragd/verify"
)

// Statement is a row of a set of statements that people judged against a text: {"id","context" or "contexts","question","response","label"}.
type Statement struct {
	ID       string   `json:"id"`
	Context  string   `json:"context"`
	Contexts []string `json:"contexts"`
	Response string   `json:"response"`
	Label    string   `json:"label"`
}

// evidence is what the statement was to be drawn from.
func (s *Statement) evidence() []string {
	if s.Context != "" {
		return append([]string{s.Context}, s.Contexts...)
	}
	return s.Contexts
}

// Supported says whether people found the statement supported; known is false where they found neither (a greeting, a matter of taste).
func (s *Statement) Supported() (supported, known bool) {
	switch s.Label {
	case "supported", "benign":
		return true, true
	case "unsupported":
		return false, true
	}
	return false, false
}

// Checked is a line of a results file of a groundedness run.
type Checked struct {
	ID        string          `json:"id"`
	Set       string          `json:"set"`
	HeldOut   bool            `json:"held_out"`
	Supported bool            `json:"supported"`
	Features  verify.Features `json:"features"`
}

// Grounded measures every statement of the set at path that is not in out yet. Statements about one text are held out together.
// limit is how many rows are measured, a fixed random sample; 0 means all.
func Grounded(ctx context.Context, path string, limit int, g *verify.Gauge, out *Results[Checked], progress func(done, total int)) error {
	rows, err := readJSONLines[Statement](path)
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b Statement) int { return cmp.Compare(share("order "+a.ID), share("order "+b.ID)) })
	if limit > 0 {
		rows = rows[:min(limit, len(rows))]
	}
	have := done(out.Records, func(c *Checked) string { return c.ID })
	for i := range rows {
		s := &rows[i]
		supported, known := s.Supported()
		if !known || have[s.ID] {
			continue
		}
		features, err := g.Measure(ctx, s.Response, s.evidence())
		if err != nil {
			return fmt.Errorf("eval: statement %s: %w", s.ID, err)
		}
		heldOut := share(strings.Join(s.evidence(), "\n")) >= 0.4
		if err := out.Add(Checked{ID: s.ID, Set: SetName(path), HeldOut: heldOut, Supported: supported, Features: features}); err != nil {
			return err
		}
		if progress != nil {
			progress(i+1, len(rows))
		}
	}
	return nil
}

// SetName is the name of a set that is one file.
func SetName(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }
