package ingest

import (
	"errors"
	"fmt"
)

// Class is why a document could not be read, in one stable word.
type Class string

// The classes of Error.
const (
	Encrypted   Class = "encrypted"
	Corrupt     Class = "corrupt"
	Empty       Class = "empty"   // no bytes, or white space only
	NoText      Class = "no_text" // readable, but without text: a scan, a blank page
	Unsupported Class = "unsupported"
	TooLarge    Class = "too_large" // over a limit of size, ratio, count or time
	TooDeep     Class = "too_deep"  // nested deeper than Limits.Depth

	PersonalData Class = "personal_data" // holds some, and its corpus refuses that
)

// Classes of a Pipeline's failures that are not the document's own.
const (
	Unreadable  Class = "unreadable"  // the file system refuses it
	Interrupted Class = "interrupted" // given back by a run that was stopped
	Internal    Class = "internal"    // ragd's own fault, or its machine's
)

// Next is what the user can do about a failure, where its message doesn't say.
func (c Class) Next() string {
	switch c {
	case Unreadable:
		return "check that it is there and may be read, and ingest it again"
	case Internal:
		return "ingest it again; if it fails again, report the message"
	case Empty:
		return "nothing to do, unless the file should hold something"
	}
	return ""
}

// Error is a document that cannot be ingested, with what the user can do.
type Error struct {
	Class   Class
	Message string // what, where, and what to do next
	Stack   []byte // where a reader panicked, for the log; else nil
}

func (e *Error) Error() string { return string(e.Class) + ": " + e.Message }

// Is reports equality of classes, so that errors.Is(err, ErrUnsupported) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Class == e.Class && t.Message == ""
}

// Sentinels for errors.Is; callers act differently on these.
var (
	ErrUnsupported = &Error{Class: Unsupported}
	ErrTooLarge    = &Error{Class: TooLarge}
	ErrEncrypted   = &Error{Class: Encrypted}
)

// ErrLeaseLost is returned by a Store when the job's lease is no longer held:
// it expired and another worker has it, the document was deleted or cancelled,
// or a newer version was received. The work in hand must be dropped.
var ErrLeaseLost = errors.New("ingest: lease lost: the document was deleted, replaced, or taken over by another worker")

// ErrIndexMismatch: the corpus is made with another embedding model or splitter.
// Vectors and passages of two makes must never be searched together.
var ErrIndexMismatch = errors.New("index mismatch")

// ErrContent is wrapped by a Store's errors when a file's bytes cannot be read
// to their end, or are not those that were announced: the fault of that file.
var ErrContent = errors.New("the file's bytes are not what they were")

// ErrUnavailable is wrapped by a Store's errors when the database cannot be
// reached or is restarting: the same call may succeed later.
var ErrUnavailable = errors.New("database unavailable")

func failf(c Class, format string, args ...any) error {
	return &Error{Class: c, Message: fmt.Sprintf(format, args...)}
}
