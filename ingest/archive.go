package ingest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
)

// readZip reads the members of a zip archive in order of name, each under a
// heading. Members that cannot be read are left out with a warning; an archive
// none of whose members can be read is an error.
func readZip(ctx context.Context, s *source, b *builder) error {
	z, err := s.openZip()
	if err != nil {
		return err
	}
	files := slices.Clone(z.File)
	slices.SortStableFunc(files, func(x, y *zip.File) int { return strings.Compare(x.Name, y.Name) })
	m := members{s: s, b: b}
	for _, f := range files {
		if f.Mode().IsDir() || strings.HasSuffix(f.Name, "/") {
			continue
		}
		if f.Flags&1 != 0 {
			return failf(Encrypted, "%s is an encrypted zip archive; unpack it with its password and ingest the members", s.name)
		}
		if err := m.read(ctx, f.Name, func() ([]byte, error) { return z.content(ctx, f) }); err != nil {
			return err
		}
	}
	return m.finish()
}

// readTar reads the regular files of a tar archive. Links and devices name
// things outside it and are left out.
func readTar(ctx context.Context, s *source, b *builder) error {
	t := tar.NewReader(&contextReader{ctx: ctx, data: s.data})
	m := members{s: s, b: b}
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return m.finish()
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return failf(Corrupt, "%s is a tar archive that is damaged or cut off (%v); get a fresh copy", s.name, err)
		case h.Typeflag != tar.TypeReg:
			if err := s.entry(); err != nil {
				return err
			}
			continue
		}
		if err := m.read(ctx, h.Name, func() ([]byte, error) { return s.expand(ctx, t, h.Size, memberName(h.Name)) }); err != nil {
			return err
		}
	}
}

// members reads one member after another into b.
type members struct {
	s      *source
	b      *builder
	ok     int
	failed error // first member that could not be read
}

func (m *members) read(ctx context.Context, name string, content func() ([]byte, error)) error {
	if err := m.s.entry(); err != nil {
		return err
	}
	if safe := "/" + memberName(name); strings.Contains(safe, "/.") || strings.HasPrefix(safe, "/__MACOSX/") {
		return nil // resource forks, editors' and version control's files
	}
	data, err := content()
	if err == nil {
		err = readMember(ctx, m.s, name, data, m.b)
	}
	switch {
	case err == nil:
		m.ok++
	case !skippable(err):
		return err
	default:
		m.b.warn(WarnAttachments)
		if m.failed == nil {
			m.failed = err
		}
	}
	return ctx.Err()
}

func (m *members) finish() error {
	if m.ok == 0 && m.failed != nil {
		return failf(Unsupported, "%s: none of its members can be read; the first: %v", m.s.name, m.failed)
	}
	return nil
}

// readCompressed reads what one gzip or bzip2 stream holds, as if it were the file.
func readCompressed(ctx context.Context, s *source, b *builder) error {
	var r io.Reader = bzip2.NewReader(bytes.NewReader(s.data))
	name := strings.TrimSuffix(s.name, extOf(s.name))
	if bytes.HasPrefix(s.data, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(bytes.NewReader(s.data))
		if err != nil {
			return failf(Corrupt, "%s is a gzip file that cannot be opened (%v); get a fresh copy", s.name, err)
		}
		r = z
		if strings.EqualFold(extOf(s.name), ".tgz") {
			name += ".tar"
		}
	}
	data, err := s.expand(ctx, r, int64(len(s.data)), "its content")
	if err != nil {
		return err
	}
	m, err := s.member(name, data)
	if err != nil {
		return err
	}
	if isBlank(data) {
		return failf(Empty, "%s holds nothing", s.name)
	}
	f, err := detect(m)
	if err != nil {
		return err
	}
	return f.read(ctx, m, b)
}
