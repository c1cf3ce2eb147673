package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"
)

// source is one file being read: the file itself, or a member of a container.
type source struct {
	name  string // path or member name, for the choice of format and for messages
	data  []byte
	depth int // containers around it
	*budget
}

// budget is what is left for one whole document, members included.
type budget struct {
	Limits
	expanded int64
	entries  int
	deadline *deadline
}

// deadline is when reading must end. Pages that have been read or are recognised put it off.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	timer *time.Timer

	perPage, forPages time.Duration // what a page adds, and what pages may still add
}

func newDeadline(d time.Duration, expire func()) *deadline {
	return &deadline{at: time.Now().Add(d), timer: time.AfterFunc(d, expire), perPage: d / 240, forPages: 9 * d}
}

// page puts the end off because a page of a PDF has been read: long documents
// may take long, but no file can take time without end.
func (l *deadline) page() {
	l.mu.Lock()
	more := min(l.perPage, l.forPages)
	l.forPages -= more
	l.mu.Unlock()
	l.extend(more)
}

// extend puts the end off by d.
func (l *deadline) extend(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = l.at.Add(d)
	l.timer.Reset(time.Until(l.at))
}

// member is data found inside s. It shares s's budget.
func (s *source) member(name string, data []byte) (*source, error) {
	if s.depth+1 > s.Depth {
		return nil, failf(TooDeep, "%s: containers are nested more than %d deep; unpack it and ingest the members", s.name, s.Depth)
	}
	return &source{name: memberName(name), data: data, depth: s.depth + 1, budget: s.budget}, nil
}

// memberName makes a name from inside a container safe to show and to join: no
// member is ever written to disk, but "../../etc/passwd" must not look like a
// place outside its container either.
func memberName(name string) string {
	name = path.Clean("/" + strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), `\`, "/"))
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return -1
		}
		return r
	}, name[1:])
}

// entry counts one member, part or element of a container.
func (s *source) entry() error {
	if s.entries++; s.entries > s.Entries {
		return failf(TooLarge, "%s: more than %d members; unpack it and ingest them in parts", s.name, s.Entries)
	}
	return nil
}

// expand reads a compressed stream whole, within the limits on total size and ratio.
func (s *source) expand(ctx context.Context, r io.Reader, compressed int64, what string) ([]byte, error) {
	var e *Error
	data, err := io.ReadAll(s.limited(ctx, r, compressed, what))
	switch {
	case ctx.Err() != nil: // also when it ended just after the last byte: no content would mean no such member
		return nil, ctx.Err()
	case errors.As(err, &e):
		return nil, err
	case err != nil:
		return nil, failf(Corrupt, "%s: %s does not decompress (%v); the file is damaged, get a fresh copy", s.name, what, err)
	}
	return data, nil
}

// limited is r until the document's decompression limits are reached or ctx ends.
func (s *source) limited(ctx context.Context, r io.Reader, compressed int64, what string) io.Reader {
	return &limitedReader{ctx: ctx, r: r, s: s, compressed: compressed, what: what}
}

type limitedReader struct {
	ctx        context.Context
	r          io.Reader
	s          *source
	what       string
	compressed int64
	n          int64
}

// ratioFree is the size below which a high ratio is harmless: office files of a
// few repetitive sheets reach 1:500.
const ratioFree = 16 << 20

func (l *limitedReader) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := l.r.Read(p)
	l.n += int64(n)
	l.s.expanded += int64(n)
	switch {
	case l.s.expanded > l.s.ExpandBytes:
		return n, failf(TooLarge, "%s: decompresses to more than %s (at %s); unpack it and ingest the members", l.s.name, sizeString(l.s.ExpandBytes), l.what)
	case l.n > ratioFree && l.n > l.compressed*l.s.Ratio:
		return n, failf(TooLarge, "%s: %s decompresses to more than %d times its size: a decompression bomb", l.s.name, l.what, l.s.Ratio)
	}
	return n, err
}

func sizeString(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
