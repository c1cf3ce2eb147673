package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
)

// jsonDepth bounds nesting; encoding/json's own bound is 10,000.
const jsonDepth = 200

// readJSON writes values as an outline, "key: value" by line, indented by
// depth: strings unescaped and unquoted, so that their text can be found and
// quoted. Each element of the outermost array (each line of JSON lines) is a
// block of its own.
func readJSON(ctx context.Context, s *source, b *builder) error {
	text, _ := s.plain(b, "")
	w := &jsonOutline{b: b, s: s}
	for len(text) > 0 {
		n, err := w.values(ctx, text)
		if err != nil {
			return err
		}
		// A line of a log that is no JSON is kept as it is, from where it goes wrong, and the next one goes on.
		line, rest, _ := strings.Cut(strings.TrimLeft(text[n:], " \t\n"), "\n")
		b.addClean(Paragraph, 0, strings.TrimSpace(cleanControls(line)))
		text = rest
	}
	return nil
}

// values reads values up to the end of text or the first thing that is no JSON, and says how far it came.
func (w *jsonOutline) values(ctx context.Context, text string) (int, error) {
	w.d = json.NewDecoder(strings.NewReader(text))
	w.d.UseNumber()
	for ctx.Err() == nil {
		err := w.value("", 0)
		w.flush()
		var refused *Error
		switch {
		case errors.Is(err, io.EOF):
			return len(text), nil
		case errors.As(err, &refused):
			return 0, err
		case err != nil:
			return int(w.d.InputOffset()), nil
		}
	}
	return 0, ctx.Err()
}

type jsonOutline struct {
	b   *builder
	s   *source
	d   *json.Decoder
	out strings.Builder // of the open block
}

func (w *jsonOutline) flush() {
	w.b.addClean(Paragraph, 0, strings.TrimRight(cleanControls(w.out.String()), " \t\n"))
	w.out.Reset()
}

// value writes the next value under key, which is "" in arrays.
func (w *jsonOutline) value(key string, depth int) error {
	if depth > jsonDepth {
		return failf(TooDeep, "%s nests values more than %d deep", w.s.name, jsonDepth)
	}
	t, err := w.d.Token()
	if err != nil {
		return err
	}
	indent := strings.Repeat("  ", max(depth-1, 0))
	if delim, ok := t.(json.Delim); ok {
		if key != "" {
			w.out.WriteString(indent + key + ":\n")
		}
		return w.members(delim == '[', depth)
	}
	if text := scalar(t); text != "" {
		label := "- "
		if key != "" {
			label = key + ": "
		}
		w.out.WriteString(indent + label + text + "\n")
	}
	return nil
}

// members writes the members of an array or object up to its end.
func (w *jsonOutline) members(array bool, depth int) error {
	for w.d.More() {
		key := ""
		if !array {
			t, err := w.d.Token()
			if err != nil {
				return err
			}
			key, _ = t.(string)
		}
		if err := w.value(key, depth+1); err != nil {
			return err
		}
		// Blocks: elements of an outermost array, and of arrays in an outermost object.
		if depth == 0 && array || depth == 1 && array {
			w.flush()
		}
	}
	_, err := w.d.Token() // ] or }
	return err
}

func scalar(t json.Token) string {
	switch v := t.(type) {
	case string:
		return strings.TrimSpace(v)
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	return "" // null
}

// readNotebook reads a Jupyter notebook: text cells as Markdown, code cells and
// their text output as code. Images in outputs are left out.
func readNotebook(ctx context.Context, s *source, b *builder) error {
	type cell struct {
		Type    string    `json:"cell_type"`
		Source  multiline `json:"source"`
		Input   multiline `json:"input"` // nbformat 3
		Outputs []struct {
			Text  multiline            `json:"text"`
			Data  map[string]multiline `json:"data"`
			Error string               `json:"ename"`
			Value string               `json:"evalue"`
		} `json:"outputs"`
	}
	var book struct {
		Cells  []cell `json:"cells"`
		Sheets []struct {
			Cells []cell `json:"cells"`
		} `json:"worksheets"`
	}
	text, _ := s.plain(b, "")
	if err := json.Unmarshal([]byte(text), &book); err != nil {
		return failf(Corrupt, "%s is not a valid notebook (%v)", s.name, err)
	}
	cells := book.Cells
	for _, sheet := range book.Sheets {
		cells = append(cells, sheet.Cells...)
	}
	for _, c := range cells {
		switch c.Type {
		case "markdown", "heading", "raw":
			md := cleanControls(string(c.Source))
			b.verbatim(md, markdownBlocks(md))
		case "code":
			b.add(Code, 0, string(c.Source+c.Input))
		}
		for _, o := range c.Outputs {
			b.add(Code, 0, terminalColours.ReplaceAllString(string(o.Text+o.Data["text/plain"]), ""))
			if o.Error != "" {
				b.add(Code, 0, o.Error+": "+o.Value)
			}
		}
	}
	for _, k := range b.blocks {
		if k.Kind == Heading {
			b.title = headingText(b.string()[k.Start:k.End])
			break
		}
	}
	return nil
}

// terminalColours are the escape sequences by which programs colour what they print.
var terminalColours = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// multiline is a notebook's string: one, or an array of lines. Other values
// (some outputs hold objects) count as empty.
type multiline string

func (m *multiline) UnmarshalJSON(data []byte) error {
	var one string
	var many []string
	switch data = bytes.TrimSpace(data); {
	case json.Unmarshal(data, &one) == nil:
		*m = multiline(one)
	case json.Unmarshal(data, &many) == nil:
		*m = multiline(strings.Join(many, ""))
	}
	return nil
}
