package jinja

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type oracle struct {
	Output string `json:"output"`
	Error  string `json:"error"`
}

type chatCase struct {
	oracle
	Messages            json.RawMessage `json:"messages"`
	AddGenerationPrompt bool            `json:"add_generation_prompt"`
}

type cases struct {
	Variables json.RawMessage `json:"variables"`
	Snippets  []struct {
		oracle
		Template string `json:"template"`
	} `json:"snippets"`
	Chats []struct {
		Name     string     `json:"name"`
		Template string     `json:"template"`
		Cases    []chatCase `json:"cases"`
	} `json:"chats"`
}

func loadCases(t testing.TB) (c cases) {
	data, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &c))
	return c
}

// fromJSON reads a value with its keys in order; all its strings are untrusted.
func fromJSON(t testing.TB, raw []byte) Value {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var read func() Value
	read = func() Value {
		tok, err := d.Token()
		require.NoError(t, err)
		switch tok := tok.(type) {
		case string:
			return Untrusted(tok)
		case json.Number:
			if n, err := tok.Int64(); err == nil {
				return n
			}
			f, err := tok.Float64()
			require.NoError(t, err)
			return f
		case json.Delim:
			if tok == '[' {
				l := &List{}
				for d.More() {
					l.Items = append(l.Items, read())
				}
				_, err = d.Token()
				require.NoError(t, err)
				return l
			}
			dict := NewDict()
			for d.More() {
				key := read()
				dict.Set(Trusted(key.(Text).s), read())
			}
			_, err = d.Token()
			require.NoError(t, err)
			return dict
		default:
			return tok // bool, nil
		}
	}
	return read()
}

func variables(t testing.TB, raw []byte) map[string]Value {
	d := fromJSON(t, raw).(*Dict)
	vars := map[string]Value{}
	for i, k := range d.keys {
		vars[k.(Text).s] = d.values[i]
	}
	return vars
}

func renderString(source string, vars map[string]Value) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	text, err := t.Render(vars, Limits{})
	return text.String(), err
}

func TestSnippetsAsJinja(t *testing.T) {
	c := loadCases(t)
	for _, s := range c.Snippets {
		t.Run(s.Template, func(t *testing.T) {
			out, err := renderString(s.Template, variables(t, c.Variables))
			if s.Error != "" {
				require.Error(t, err, "Jinja: %s; here: %q", s.Error, out)
				return
			}
			require.NoError(t, err)
			require.Equal(t, s.Output, out)
		})
	}
}

// chatVariables are those of make_cases.py.
func chatVariables(t testing.TB, c chatCase) map[string]Value {
	return map[string]Value{
		"messages": fromJSON(t, c.Messages), "add_generation_prompt": c.AddGenerationPrompt, "bos_token": Trusted("<bos>"), "eos_token": Trusted("<eos>"),
		"tools": nil, "documents": nil, "enable_thinking": false,
	}
}

func TestChatTemplatesAsJinja(t *testing.T) {
	for _, chat := range loadCases(t).Chats {
		t.Run(chat.Name, func(t *testing.T) {
			for _, c := range chat.Cases {
				out, err := renderString(chat.Template, chatVariables(t, c))
				if c.Error != "" {
					require.Error(t, err, "Jinja: %s", c.Error)
					if message, ok := strings.CutPrefix(c.Error, "TemplateError: "); ok {
						var e *Error
						require.ErrorAs(t, err, &e)
						require.True(t, e.Raised)
						require.Equal(t, message, e.What)
					}
					continue
				}
				require.NoError(t, err)
				require.Equal(t, c.Output, out)
			}
		})
	}
}
