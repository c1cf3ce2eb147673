package catalog

import (
	"archive/zip"
	"bufio"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// isArchive reports whether a file has the name of a package archive.
func isArchive(path string) bool {
	return strings.HasSuffix(path, ".whl") || strings.HasSuffix(path, ".jar") || strings.HasSuffix(path, ".zip")
}

// extract writes the one member of the archive that part means to the file at path, from offset on, and returns the new
// length of the file, which must not exceed limit. zip checks the member's CRC.
func extract(ctx context.Context, archive string, part Part, path string, offset, limit int64) (length int64, err error) {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return 0, fmt.Errorf("the archive is damaged: %w", err)
	}
	defer r.Close()
	var member *zip.File
	for _, f := range r.File {
		if f.FileInfo().IsDir() || !part.matches(f.Name) {
			continue
		}
		if member != nil {
			return 0, fmt.Errorf("both %s and %s match %s: the package has another layout than expected", member.Name, f.Name, part.Member)
		}
		member = f
	}
	if member == nil {
		return 0, fmt.Errorf("no member matches %s: the package has another layout than expected", part.Member)
	}
	in, err := member.Open()
	if err != nil {
		return 0, fmt.Errorf("member %s: %w", member.Name, err)
	}
	defer in.Close()
	return appendTo(ctx, path, offset, limit, in, member.Name)
}

// appendTo writes r to the file at path from offset on, discarding what was there, and syncs it.
func appendTo(ctx context.Context, path string, offset, limit int64, r io.Reader, what string) (length int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(offset); err != nil {
		return 0, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.Copy(f, io.LimitReader(&contextReader{ctx, r}, limit-offset+1)) // one more: to see that it is too long
	if err != nil {
		return 0, fmt.Errorf("member %s: %w", what, err)
	}
	if offset+n > limit {
		return 0, fmt.Errorf("member %s is longer than the %d bytes expected", what, limit-offset)
	}
	return offset + n, f.Sync()
}

const localHeaderSignature = 0x04034b50 // of a member in a zip archive

// inflate writes the member that p locates in the archive fragment to the file out, which gets exactly size bytes.
func (p *packed) inflate(ctx context.Context, fragment, out string, size int64) error {
	f, err := os.Open(fragment)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(p.offset, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(f, 1<<20)
	var head [30]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return fmt.Errorf("the archive fragment ends before the model: %w", err)
	}
	nameBytes, extraBytes := int(binary.LittleEndian.Uint16(head[26:])), int(binary.LittleEndian.Uint16(head[28:]))
	name := make([]byte, nameBytes)
	if _, err := io.ReadFull(in, name); err != nil {
		return fmt.Errorf("the archive fragment ends before the model: %w", err)
	}
	if binary.LittleEndian.Uint32(head[:]) != localHeaderSignature || !strings.HasSuffix(string(name), p.name) {
		return fmt.Errorf("the archive fragment does not hold %s where it should: the package has changed", p.name)
	}
	if _, err := in.Discard(extraBytes); err != nil {
		return fmt.Errorf("the archive fragment ends before the model: %w", err)
	}
	n, err := appendTo(ctx, out, 0, size, flate.NewReader(in), p.name)
	if err == nil && n != size {
		err = fmt.Errorf("%s unpacks to %d bytes, not %d", p.name, n, size)
	}
	return err
}
