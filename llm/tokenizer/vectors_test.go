package tokenizer

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixture is a file of testdata/make_vectors.py.
type fixture struct {
	Vocabulary fixtureVocabulary `json:"vocabulary"`
	Cases      []struct {
		Text    string  `json:"text"`
		IDs     []int32 `json:"ids"`
		Special []int32 `json:"special"` // with control tokens recognised
		Query   *string `json:"query"`   // a pair, with Text as the document
		Limit   int     `json:"limit"`
		Types   []int32 `json:"types"`
	} `json:"cases"`
}

type fixtureVocabulary struct {
	Model, Pre                   string
	Tokens, Merges               []string
	Types                        []Type
	Scores                       []float32
	BOS, EOS, UNK, CLS, SEP, PAD *int32
	MASK                         *int32
	Charsmap                     []byte
	Lowercase                    *bool
	StripAccents                 *bool `json:"strip_accents"`
	AddSpacePrefix               *bool `json:"add_space_prefix"`
	RemoveExtraWhitespaces       *bool `json:"remove_extra_whitespaces"`
}

func (f fixtureVocabulary) vocabulary() Vocabulary {
	id := func(p *int32) int32 {
		if p == nil {
			return -1
		}
		return *p
	}
	return Vocabulary{
		Model: f.Model, Pre: f.Pre, Tokens: f.Tokens, Merges: f.Merges, Types: f.Types, Scores: f.Scores, Charsmap: f.Charsmap,
		BOS: id(f.BOS), EOS: id(f.EOS), EOT: -1, EOM: -1, UNK: id(f.UNK), CLS: id(f.CLS), SEP: id(f.SEP), PAD: id(f.PAD), MASK: id(f.MASK),
		Lowercase: f.Lowercase, StripAccents: f.StripAccents, AddSpacePrefix: f.AddSpacePrefix, RemoveExtraWhitespaces: f.RemoveExtraWhitespaces,
	}
}

func loadFixture(t testing.TB, name string) (fixture, *Tokenizer) {
	var f fixture
	readJSON(t, filepath.Join("testdata", name+".json"), &f)
	tok, err := New(f.Vocabulary.vocabulary())
	require.NoError(t, err)
	return f, tok
}

// fixtures returns the names of all files of vectors.
func fixtures(t testing.TB) (names []string) {
	paths, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), ".json"))
	}
	require.NotEmpty(t, names)
	return names
}

func TestVectors(t *testing.T) {
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			f, tok := loadFixture(t, name)
			for _, c := range f.Cases {
				if c.Query != nil {
					ids, types := tok.EncodePair(*c.Query, c.Text, c.Limit)
					requireIDs(t, tok, c.IDs, ids)
					require.Equal(t, c.Types, types)
					continue
				}
				t.Run(c.Text, func(t *testing.T) {
					requireIDs(t, tok, c.IDs, tok.Encode(c.Text, false, false))
					if c.Special != nil {
						requireIDs(t, tok, c.Special, tok.Encode(c.Text, false, true))
					}
					checkOffsets(t, tok, c.Text)
				})
			}
		})
	}
}
