package gguf

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Create writes a file at path that appears complete or not at all: fill writes it beside its place, and it is renamed
// when every byte is on disk. On an error of fill or of the disk (full, for example) nothing is left behind, and a file
// that was at path stays as it was. A path that is there and is neither a file nor a link, such as a device, is refused:
// the renaming would put a file in its place. fill calls everything from the metadata to the last tensor; Create closes w.
func Create(path, architecture string, fill func(w *Writer) error) (err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink {
		return fmt.Errorf("%s is no regular file and is not replaced", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	buf := bufio.NewWriterSize(f, 1<<20)
	w := NewWriter(buf, architecture)
	if err := fill(w); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil { // CreateTemp makes it private
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
