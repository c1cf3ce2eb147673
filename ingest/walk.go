package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	ignore "github.com/sabhiram/go-gitignore"
)

// ignoreFile names files and folders to leave out, as .gitignore does.
const ignoreFile = ".ragdignore"

// generated folders hold what programs made of other files.
var generated = set("node_modules __pycache__ venv site-packages")

// walk finds the files under paths and hands each to the store. It follows no
// links, opens nothing but regular files, and says why it left others out.
func (r *run) walk(ctx context.Context, paths []string) error {
	if len(paths) > 0 && r.corpus == "" {
		return errors.New("a corpus needs a name")
	}
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
		w := &walker{r: r, root: root, seen: seen, rules: []rule{{folder: root, patterns: ignore.CompileIgnoreLines(r.p.Ignore...)}}}
		if err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error { return w.visit(ctx, file, d, err) }); err != nil {
			return err
		}
		if r.p.Prune {
			if err := r.prune(ctx, root); err != nil {
				return err
			}
		}
	}
	r.known.keep(seen)
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

// prune removes the documents whose files are gone from under root. Where they
// were is known exactly, so another folder of the same name is not touched. A file
// that has only moved was found by the walk before, and is where it is now.
func (r *run) prune(ctx context.Context, root string) error {
	placed, err := r.store.Origins(ctx, r.tenant, r.corpus, placeOf(root))
	if err != nil {
		return err
	}
	for _, d := range placed {
		if !within(root, d.Origin) || !gone(d.Origin) {
			continue
		}
		if !r.dry {
			if err := r.store.Remove(ctx, r.tenant, r.corpus, d.Path); err != nil {
				return fmt.Errorf("%s: %w", d.Path, err)
			}
		}
		r.update(func() {
			r.now.Path = d.Path
			r.report.Removed = append(r.report.Removed, Note{Path: d.Path, Reason: "its file is gone"})
		})
	}
	return nil
}

// hostName tells files of several machines that share a database apart.
var hostName, _ = os.Hostname()

// placeOf names a file's place.
func placeOf(file string) string { return "file://" + hostName + filepath.ToSlash(file) }

func fileAt(origin string) string {
	return filepath.FromSlash(strings.TrimPrefix(origin, "file://"+hostName))
}

// within reports whether an origin that begins as root's does is root or below it.
func within(root, origin string) bool {
	rel, err := filepath.Rel(root, fileAt(origin))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// gone reports whether nothing is at an origin of this machine any more.
func gone(origin string) bool {
	if !strings.HasPrefix(origin, "file://"+hostName+"/") {
		return false
	}
	_, err := os.Lstat(fileAt(origin))
	return errors.Is(err, fs.ErrNotExist)
}

type walker struct {
	r     *run
	root  string
	seen  map[string]string
	rules []rule // of the folders from the root to the one being read
}

// rule is what one folder's .ragdignore says about all below it.
type rule struct {
	folder   string
	patterns *ignore.GitIgnore
}

// enter drops the rules of folders that have been left and reads those of dir.
func (w *walker) enter(dir string) {
	for len(w.rules) > 1 && !within(w.rules[len(w.rules)-1].folder, placeOf(dir)) {
		w.rules = w.rules[:len(w.rules)-1]
	}
	if patterns, err := ignore.CompileIgnoreFile(filepath.Join(dir, ignoreFile)); err == nil {
		w.rules = append(w.rules, rule{folder: dir, patterns: patterns})
	}
}

// ignored reports whether a rule leaves a file or folder out.
func (w *walker) ignored(file string, isDir bool) bool {
	for _, rule := range w.rules {
		rel, err := filepath.Rel(rule.folder, file)
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		rel = filepath.ToSlash(rel)
		if rule.patterns.MatchesPath(rel) || isDir && rule.patterns.MatchesPath(rel+"/") {
			return true
		}
	}
	return false
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
		w.enter(file)
		return nil
	}
	if w.seen[name] == file { // under two of the paths
		return nil
	}
	w.seen[name] = file
	if w.r.known == nil {
		return w.r.receive(ctx, name, file)
	}
	info, err := d.Info()
	if err != nil || w.r.known.has(file, info) {
		return nil // gone again, or as it was
	}
	if err := w.r.receive(ctx, name, file); err != nil {
		return err
	}
	w.r.known.set(file, info)
	return nil
}

// stamps are files as they were when they were last looked into.
type stamps map[string]stamp

type stamp struct {
	size     int64
	modified time.Time
}

func (s stamps) has(file string, info fs.FileInfo) bool {
	return s[file] == stamp{info.Size(), info.ModTime()}
}

// keep forgets the files that are not among those of a walk: one that comes back is looked into again.
func (s stamps) keep(seen map[string]string) {
	files := make(map[string]bool, len(seen))
	for _, file := range seen {
		files[file] = true
	}
	maps.DeleteFunc(s, func(file string, _ stamp) bool { return !files[file] })
}

func (s stamps) set(file string, info fs.FileInfo) { s[file] = stamp{info.Size(), info.ModTime()} }

// leaveOut is why an entry is skipped; "" when it isn't. The root was named by the user and is never skipped.
func (w *walker) leaveOut(file string, d fs.DirEntry) string {
	if file == w.root {
		return ""
	}
	switch base := d.Name(); {
	case base == ignoreFile:
		return "names what is left out"
	case strings.HasPrefix(base, ".") && !w.r.p.Hidden:
		return "hidden"
	case w.ignored(file, d.IsDir()):
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
	if errors.Is(err, fs.ErrNotExist) {
		r.skip(name, "deleted before it was read")
		return nil
	}
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
	c := Candidate{Source: Source{Tenant: r.tenant, Corpus: r.corpus, Path: name}, Size: size, Modified: info.ModTime(), Index: r.p.Index(), Origin: placeOf(file), Gone: gone}
	h.Sum(c.SHA256[:0])
	return r.offer(ctx, c, content)
}

// offer hands a candidate to the store and counts what becomes of it.
func (r *run) offer(ctx context.Context, c Candidate, content io.Reader) error {
	preview, err := r.store.Preview(ctx, c)
	outcome, version := preview.Outcome, int64(0)
	if err == nil && !r.dry {
		outcome, version, err = r.store.Receive(ctx, c, content)
	}
	if errors.Is(err, ErrContent) { // the next run finds it as it is then
		r.refuse(c.Path, Unreadable, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	r.update(func() {
		if preview.From != "" {
			r.report.Moved = append(r.report.Moved, Note{Path: c.Path, Reason: "was " + preview.From})
		}
		if r.done[version] { // a worker was quicker, and has counted it
			return
		}
		r.now.DocumentsKnown++
		r.now.Path, r.now.State = c.Path, Received
		switch {
		case outcome != Queued:
			r.now.State = Live
			r.now.Unchanged++
			r.report.Unchanged++
		case r.dry:
			r.report.Documents++
		default:
			r.awaited[version] = file{path: c.Path, size: c.Size}
			r.expect(version, c.Size)
		}
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
