package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	ignore "github.com/sabhiram/go-gitignore"
)

// ignoreFile names files and folders to leave out, as .gitignore does.
const ignoreFile = ".ragdignore"

// generated folders hold what programs made of other files.
var generated = set("node_modules __pycache__ venv site-packages")

// walk finds the files under paths and hands each to the store. It follows no
// links, opens nothing but regular files, and says why it left others out.
func (r *run) walk(ctx context.Context, paths []string) error {
	seen := make(map[string]string) // document name -> file
	for _, given := range paths {
		root, err := filepath.Abs(given)
		if err == nil {
			root, err = filepath.EvalSymlinks(root) // the user's own choice may be a link
		}
		if err != nil {
			r.refuse(given, Unreadable, err)
			continue
		}
		w := &walker{r: r, root: root, seen: seen, patterns: ignore.CompileIgnoreLines(r.p.Ignore...)}
		if own, err := ignore.CompileIgnoreFileAndLines(filepath.Join(root, ignoreFile), r.p.Ignore...); err == nil {
			w.patterns = own
		}
		if err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error { return w.visit(ctx, file, d, err) }); err != nil {
			return err
		}
	}
	return nil
}

// refuse reports a file that cannot be ingested as it is.
func (r *run) refuse(name string, c Class, err error) {
	var pe *fs.PathError
	reason := err.Error()
	if errors.As(err, &pe) {
		reason = pe.Err.Error()
	}
	r.update(func() {
		r.now.DocumentsKnown++
		r.now.Path, r.now.State = name, Failed
		r.noteFailure(name, Failure{Class: c, Message: reason})
	})
}

func (r *run) skip(name, reason string) {
	r.update(func() {
		r.now.Skipped++
		r.report.Skipped = append(r.report.Skipped, Note{Path: name, Reason: reason})
	})
}

type walker struct {
	r        *run
	root     string
	seen     map[string]string
	patterns *ignore.GitIgnore
}

// name is how a file is called in the corpus: the folder that was given, then
// the way inside it. Two files that would share a name in one run (two folders
// called "docs") are told apart by their full paths.
func (w *walker) name(file string) string {
	name := filepath.Base(w.root)
	if rel, err := filepath.Rel(w.root, file); err == nil && rel != "." {
		name = path.Join(name, filepath.ToSlash(rel))
	}
	name = strings.ToValidUTF8(strings.ReplaceAll(name, "\x00", ""), "\uFFFD")
	if other, taken := w.seen[name]; taken && other != file {
		return strings.ToValidUTF8(filepath.ToSlash(file), "\uFFFD")
	}
	return name
}

func (w *walker) visit(ctx context.Context, file string, d fs.DirEntry, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	name := w.name(file)
	if err != nil {
		w.r.refuse(name, Unreadable, err)
		if d != nil && d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if reason := w.leaveOut(file, d); reason != "" {
		w.r.skip(name, reason)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if d.IsDir() {
		return nil
	}
	if w.seen[name] == file { // under two of the paths
		return nil
	}
	w.seen[name] = file
	return w.r.receive(ctx, name, file)
}

// leaveOut is why an entry is skipped; "" when it isn't. The root was named by the user and is never skipped.
func (w *walker) leaveOut(file string, d fs.DirEntry) string {
	if file == w.root {
		return ""
	}
	rel, err := filepath.Rel(w.root, file)
	switch base := d.Name(); {
	case strings.HasPrefix(base, "."):
		return "hidden"
	case err == nil && w.patterns.MatchesPath(rel):
		return "ignored by a pattern"
	case d.IsDir() && generated[base]:
		return "a folder of generated files"
	case d.Type()&fs.ModeSymlink != 0:
		return "a symbolic link, not followed"
	case !d.IsDir() && !d.Type().IsRegular():
		return "not a regular file"
	case strings.HasPrefix(base, "~$"):
		return "an office program's lock file"
	}
	return ""
}

// wholeFile is the size up to which a file is read once, so that the hash and
// the stored bytes are of one moment.
const wholeFile = 16 << 20

// receive hashes a file and hands it to the store.
func (r *run) receive(ctx context.Context, name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		r.refuse(name, Unreadable, err)
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		r.refuse(name, Unreadable, err)
		return nil
	}
	limits := r.p.Limits.withDefaults()
	if info.Size() > limits.FileBytes {
		r.refuse(name, TooLarge, tooLarge(name, info.Size(), limits))
		return nil
	}
	var content io.ReadSeeker = f
	if info.Size() <= wholeFile {
		data, err := io.ReadAll(io.LimitReader(f, wholeFile+1))
		if err != nil {
			r.refuse(name, Unreadable, err)
			return nil
		}
		content = bytes.NewReader(data)
	}
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		r.refuse(name, Unreadable, err)
		return nil
	}
	if reason := notADocument(name, head[:n]); reason != "" {
		r.skip(name, reason)
		return nil
	}
	h := sha256.New()
	_, err = content.Seek(0, io.SeekStart)
	var size int64
	if err == nil {
		size, err = io.Copy(h, content)
	}
	if err == nil {
		_, err = content.Seek(0, io.SeekStart)
	}
	if err != nil {
		r.refuse(name, Unreadable, err)
		return nil
	}
	c := Candidate{Source: Source{Tenant: r.tenant, Corpus: r.corpus, Path: name}, Size: size, Modified: info.ModTime(), Index: r.p.Index()}
	h.Sum(c.SHA256[:0])
	outcome, version, err := r.p.Store.Receive(ctx, c, content)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.update(func() {
		if r.done[version] { // a worker was quicker, and has counted it
			return
		}
		r.now.DocumentsKnown++
		r.now.Path, r.now.State = name, Received
		if outcome == Unchanged {
			r.now.State = Live
			r.now.Unchanged++
			r.report.Unchanged++
			return
		}
		r.awaited[version] = name
	})
	r.nudge()
	return nil
}

// notADocument recognises pictures, programs and other binary files by their
// first bytes: they are no failures, there is just no text in them.
func notADocument(name string, head []byte) string {
	s := &source{name: name, data: head}
	if kind := signature(head); kind != "" || binaryNames[extOf(name)] != "" || !looksBinary(head) {
		return ""
	}
	return strings.TrimPrefix(unreadable(s).Error(), string(Unsupported)+": ")
}
