package tokenizer

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/internal/modeltest"
	"ragd/llm/gguf"
)

// refs returns the folder of the handed references, or skips: the cases in testdata cover every algorithm without it.
func refs(t testing.TB) string {
	dir := os.Getenv("RAGD_REFS")
	if dir == "" {
		t.Skip("set RAGD_REFS to the folder that holds refs/ to compare with the real models' vectors")
	}
	return filepath.Join(dir, "refs")
}

// modelFile returns a model file.
func modelFile(t testing.TB, name string) string { return modeltest.Path(t, name) }

func readJSON(t testing.TB, path string, v any) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, v), path)
}

func fromModel(t testing.TB, path string) *Tokenizer {
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	tok, err := FromGGUF(f)
	require.NoError(t, err)
	return tok
}

func TestModelVectors(t *testing.T) {
	for _, name := range []string{"smollm2", "qwen2.5", "gemma3"} {
		t.Run(name, func(t *testing.T) {
			var ref struct {
				GGUF    string `json:"gguf"`
				NVocab  int    `json:"n_vocab"`
				AddBOS  bool   `json:"add_bos"`
				BOS     int32  `json:"bos"`
				EOS     int32  `json:"eos"`
				EOT     int32  `json:"eot"`
				Vectors []struct {
					Name              string  `json:"name"`
					Hex               string  `json:"hex"`
					IDs               []int32 `json:"ids"`
					Special           []int32 `json:"ids_parse_special"`
					AddSpecial        []int32 `json:"ids_add_special_parse_special"`
					Detok             string  `json:"detok_hex"`
					DetokSpecial      string  `json:"detok_special_hex"`
					DetokSkipSpecial  string  `json:"detok_skip_special_hex"`
					RoundTripsExactly bool    `json:"roundtrip"`
				} `json:"vectors"`
			}
			readJSON(t, filepath.Join(refs(t), "llm", name+"-tokenizer.json"), &ref)
			tok := fromModel(t, modelFile(t, ref.GGUF))
			require.Equal(t, ref.NVocab, tok.Size())
			require.Equal(t, ref.AddBOS, tok.AddsBOS())
			bos, _ := tok.BOS()
			require.Equal(t, ref.BOS, bos)
			eos, _ := tok.EOS()
			require.Equal(t, ref.EOS, eos)
			require.True(t, tok.IsEOG(ref.EOS))
			require.True(t, tok.IsEOG(ref.EOT))
			for _, v := range ref.Vectors {
				t.Run(v.Name, func(t *testing.T) {
					text := unhex(t, v.Hex)
					requireIDs(t, tok, v.IDs, tok.Encode(text, false, false))
					requireIDs(t, tok, v.Special, tok.Encode(text, false, true))
					requireIDs(t, tok, v.AddSpecial, tok.Encode(text, true, true))
					require.Equal(t, unhex(t, v.Detok), string(tok.Decode(v.IDs, false)))
					require.Equal(t, unhex(t, v.DetokSpecial), string(tok.Decode(v.Special, false)))
					require.Equal(t, unhex(t, v.DetokSkipSpecial), string(tok.Decode(v.Special, true)))
					checkOffsets(t, tok, text)
				})
			}
		})
	}
}

func unhex(t testing.TB, s string) string {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return string(b)
}

// requireIDs fails with the tokens' texts, which say at a glance what went wrong.
func requireIDs(t testing.TB, tok *Tokenizer, want, got []int32) {
	t.Helper()
	if len(want) == 0 && len(got) == 0 {
		return
	}
	texts := func(ids []int32) (out []string) {
		for _, id := range ids {
			out = append(out, tok.Token(id))
		}
		return out
	}
	require.Equal(t, want, got, "want %q\ngot  %q", texts(want), texts(got))
}

// checkOffsets is checkEnds for vocabularies that can spell everything: their last token ends where the text does.
func checkOffsets(t testing.TB, tok *Tokenizer, text string) {
	t.Helper()
	ends := checkEnds(t, tok, text)
	if (tok.Kind() == "bpe" || tok.Kind() == "spm") && len(ends) > 0 {
		require.Equal(t, len(text), ends[len(ends)-1], "%q", text)
	}
}

// checkEnds compares EncodeOffsets with Encode and checks what it promises about the ends.
func checkEnds(t testing.TB, tok *Tokenizer, text string) []int {
	t.Helper()
	ids, ends := tok.EncodeOffsets(text)
	requireIDs(t, tok, tok.Encode(text, false, false), ids)
	require.Len(t, ends, len(ids))
	last := 0
	for _, end := range ends {
		require.GreaterOrEqual(t, end, last)
		require.LessOrEqual(t, end, len(text))
		last = end
	}
	return ends
}

// TestPromptIDs compares with the ids of the prompts and the longer texts that the models' logits were recorded for.
func TestPromptIDs(t *testing.T) {
	dir := refs(t)
	for _, name := range []string{"smollm2", "gemma3", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"} {
		t.Run(name, func(t *testing.T) {
			var ref struct {
				GGUF    string `json:"gguf"`
				Prompts []struct {
					Text   string  `json:"text"`
					Tokens []int32 `json:"tokens"`
				} `json:"prompts"`
			}
			readJSON(t, filepath.Join(dir, "llm", name+".json"), &ref)
			tok := fromModel(t, modelFile(t, ref.GGUF))
			for _, p := range ref.Prompts {
				requireIDs(t, tok, p.Tokens, tok.Encode(p.Text, true, true))
			}
			perplexity := filepath.Join(dir, "llm", name+"-ppl.json")
			if _, err := os.Stat(perplexity); os.IsNotExist(err) {
				return
			}
			var long struct {
				Texts []struct {
					File   string  `json:"text_file"`
					Tokens []int32 `json:"tokens"`
				} `json:"texts"`
			}
			readJSON(t, perplexity, &long)
			for _, x := range long.Texts {
				text, err := os.ReadFile(filepath.Join(dir, "llm", x.File))
				require.NoError(t, err)
				require.NotEmpty(t, x.Tokens)
				requireIDs(t, tok, x.Tokens, tok.Encode(string(text), true, false)[:len(x.Tokens)])
			}
		})
	}
}

// TestEncoderVectors compares with the ids of real encoders, which share BERT's vocabulary: from files that say nothing about case (nomic), from
// our converter, and from vocab.txt.
func TestEncoderVectors(t *testing.T) {
	dir := refs(t)
	t.Run("nomic", func(t *testing.T) {
		testEncoderVectors(t, dir, fromModel(t, modelFile(t, "nomic-embed-text-v1.5-f16")))
	})
	t.Run("bge", func(t *testing.T) {
		testEncoderVectors(t, dir, fromModel(t, modelFile(t, "bge-small-en-v1.5-int8.gguf")))
	})
	t.Run("vocab.txt", func(t *testing.T) {
		path := filepath.Join(os.Getenv("RAGD_MODELS"), "vectrix", "bge", "vocab.txt")
		if _, err := os.Stat(path); err != nil {
			t.Skip("vocab.txt is not part of what `ragd models pull` keeps; the two cases above cover the same ids")
		}
		testEncoderVectors(t, dir, fromVocabTxt(t, path))
	})
}

// fromVocabTxt builds a tokenizer from Hugging Face's spelling of a WordPiece vocabulary.
func fromVocabTxt(t testing.TB, path string) *Tokenizer {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	v := Vocabulary{Model: "bert", BOS: -1, EOS: -1, EOT: -1, EOM: -1, UNK: -1, SEP: -1, PAD: -1, CLS: -1, MASK: -1}
	for _, token := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		kind := Normal
		switch rest, inner := strings.CutPrefix(token, "##"); {
		case token == "[PAD]" || token == "[UNK]" || token == "[CLS]" || token == "[SEP]" || token == "[MASK]":
			kind = Control
		case inner:
			token = rest
		default:
			token = blank + token
		}
		v.Tokens, v.Types = append(v.Tokens, token), append(v.Types, kind)
	}
	tok, err := New(v)
	require.NoError(t, err)
	return tok
}

func testEncoderVectors(t *testing.T, dir string, tok *Tokenizer) {
	for _, name := range []string{"all-MiniLM-L6-v2-fp32", "bge-small-en-v1.5-fp32", "bge-small-en-v1.5-int8", "e5-small-v2-fp32", "ms-marco-MiniLM-L12-int8"} {
		var ref struct {
			Cases []struct {
				Text     string  `json:"text"`
				Query    string  `json:"query"`
				Document string  `json:"document"`
				IDs      []int32 `json:"ids"`
				TypeIDs  []int32 `json:"type_ids"`
			} `json:"cases"`
		}
		readJSON(t, filepath.Join(dir, "encoder", name+".json"), &ref)
		require.NotEmpty(t, ref.Cases)
		for _, c := range ref.Cases {
			if c.TypeIDs != nil {
				ids, types := tok.EncodePair(c.Query, c.Document, 512)
				requireIDs(t, tok, c.IDs, ids)
				require.Equal(t, c.TypeIDs, types)
				continue
			}
			ids := tok.Encode(c.Text, true, false)
			if len(ids) > 512 {
				ids = append(ids[:511:511], ids[len(ids)-1])
			}
			requireIDs(t, tok, c.IDs, ids)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text, err := os.ReadFile(filepath.Join(refs(b), "llm", "ppl-wiki.txt"))
	require.NoError(b, err)
	for _, file := range []string{"SmolLM2-135M-Instruct.Q4_1.gguf", "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", "gemma-3-270m-q4_k_m.gguf", "nomic-embed-text-v1.5-f16.gguf"} {
		b.Run(file, func(b *testing.B) {
			tok := fromModel(b, modelFile(b, file))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(string(text), false, false)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, file := range []string{"Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", "gemma-3-270m-q4_k_m.gguf"} {
		b.Run(file, func(b *testing.B) {
			path := modelFile(b, file)
			for b.Loop() {
				fromModel(b, path)
			}
		})
	}
}
