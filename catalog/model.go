package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ragd/llm/convert"
)

// Kind says what a model is for.
type Kind string

// The kinds of models.
const (
	Answer Kind = "answer"
	Embed  Kind = "embed"
	Rerank Kind = "rerank"
)

// Model is one entry of the catalogue.
type Model struct {
	Name    string
	Kind    Kind
	File    string // name in Dir
	Aliases []string
	Bytes   int64  // size of File
	SHA256  string // of File, hex
	Licence string
	Note    string // what to know before choosing it
	Context int    // tokens
	Dim     int    // of the vectors, for embedders
	Profile Profile
	Sources []Source

	conversion *conversion // nil: the source's file is the model
}

// Profile is how a model wants to be used; the fields concern encoders.
type Profile struct {
	QueryPrefix, PassagePrefix string // written before each text
	Pooling                    string // "mean" or "cls"
	MaxTokens                  int    // longest text, special tokens included
}

// conversion says how an ONNX encoder becomes a GGUF file.
type conversion struct {
	heads   int
	pooling string
}

// All returns the catalogue: answer models, embedders, rerankers, each kind in the order of preference. The caller owns
// the slice.
func All() []Model { return slices.Clone(models) }

// Lookup finds a model by its name; upper and lower case count as the same.
func Lookup(name string) (Model, bool) {
	for _, m := range models {
		if strings.EqualFold(m.Name, name) {
			return m, true
		}
	}
	return Model{}, false
}

// Dir returns the folder of the models: RAGD_MODELS, or ragd/models in the user's cache folder. It may not exist yet.
func Dir() string {
	if dir := os.Getenv("RAGD_MODELS"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil { // neither HOME nor XDG_CACHE_HOME: a service account
		cache = os.TempDir()
	}
	return filepath.Join(cache, "ragd", "models")
}

// Path returns where the model lies on this machine, and whether it does: a file of the right name and size in Dir, made
// by this version of the converter if it was converted. Files under the names of their publishers (Aliases) count.
func (m Model) Path() (string, bool) {
	for _, name := range append([]string{m.File}, m.Aliases...) {
		path := filepath.Join(Dir(), name)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() != m.Bytes {
			continue
		}
		if m.conversion != nil && convert.FileVersion(path) != convert.Version {
			continue // Pull makes it again
		}
		return path, true
	}
	return "", false
}

// Verify reads the whole file of a model and compares its SHA-256. The error of a damaged file names both hashes; a
// missing file gives fs.ErrNotExist.
func Verify(ctx context.Context, m Model) error {
	path, ok := m.Path()
	if !ok {
		return fmt.Errorf("catalog: %s is not in %s, or has another size: run 'ragd models pull %s': %w", m.File, Dir(), m.Name, fs.ErrNotExist)
	}
	if err := verifyFile(ctx, path, m.SHA256); err != nil {
		return fmt.Errorf("catalog: %w; run 'ragd models rm %s' and pull it again", err, m.Name)
	}
	return nil
}

// Remove deletes the file of a model, what an interrupted pull left of it, and packages that were kept for other models.
// A model that is not there is no error.
func Remove(m Model) error {
	names := append([]string{m.File}, m.Aliases...)
	for _, name := range names {
		if err := os.Remove(filepath.Join(Dir(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("catalog: remove %s: %w", m.Name, err)
		}
	}
	for _, dir := range []string{partsDir(m), sharedDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("catalog: remove %s: %w", m.Name, err)
		}
	}
	return nil
}

// verifyFile compares the SHA-256 of a file.
func verifyFile(ctx context.Context, path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, &contextReader{ctx, f}); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return &hashError{path: path, got: got, want: want}
	}
	return nil
}

// hashError says that a file is not what the catalogue promises.
type hashError struct{ path, got, want string }

func (e *hashError) Error() string {
	return fmt.Sprintf("%s has the SHA-256 %s, but the catalogue expects %s", e.path, e.got, e.want)
}

// contextReader makes long copies stop when ctx ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
