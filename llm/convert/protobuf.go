package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// message reads the fields of one protobuf message from a region of a file. Long fields are not read, only located: an
// ONNX file is mostly weights, and those are streamed later. The first error sticks.
type message struct {
	r       io.ReaderAt
	at, end int64
	err     error
}

// field is one field of a message. Value holds varints and fixed-size numbers, sub the region of length-delimited ones.
type field struct {
	number int
	wire   int
	value  uint64
	sub    message
}

// Wire types.
const (
	varintWire  = 0
	fixed64Wire = 1
	bytesWire   = 2
	fixed32Wire = 5
)

var errProtobuf = errors.New("the file is no valid ONNX model (broken protobuf)")

// next returns the next field; false at the end or after an error.
func (m *message) next() (field, bool) {
	if m.err != nil || m.at >= m.end {
		return field{}, false
	}
	tag := m.varint()
	f := field{number: int(tag >> 3), wire: int(tag & 7)}
	switch f.wire {
	case varintWire:
		f.value = m.varint()
	case fixed64Wire:
		f.value = binary.LittleEndian.Uint64(m.fixed(8))
	case fixed32Wire:
		f.value = uint64(binary.LittleEndian.Uint32(m.fixed(4)))
	case bytesWire:
		n := m.varint()
		if m.err == nil && n > uint64(m.end-m.at) {
			m.fail("field %d of %d bytes is longer than its message", f.number, n)
		}
		f.sub = message{r: m.r, at: m.at, end: m.at + int64(n)}
		m.at += int64(n)
	default:
		m.fail("wire type %d", f.wire)
	}
	if m.err == nil && (f.number < 1 || f.number > 1<<29) {
		m.fail("field number %d", f.number)
	}
	return f, m.err == nil
}

// varint reads a base-128 number.
func (m *message) varint() uint64 {
	var buf [binary.MaxVarintLen64]byte
	if m.err != nil {
		return 0
	}
	n, err := m.r.ReadAt(buf[:min(int64(len(buf)), max(m.end-m.at, 0))], m.at)
	if err != nil && err != io.EOF {
		m.err = err
		return 0
	}
	v, used := binary.Uvarint(buf[:n])
	if used <= 0 {
		m.fail("a number is cut or too long")
		return 0
	}
	m.at += int64(used)
	return v
}

// fixed reads n bytes, at most 8; zeros after an error.
func (m *message) fixed(n int64) []byte {
	b := make([]byte, 8)
	if m.err != nil {
		return b
	}
	if n > m.end-m.at {
		m.fail("a number is cut")
		return b
	}
	if _, err := m.r.ReadAt(b[:n], m.at); err != nil {
		m.err = err
	}
	m.at += n
	return b
}

// bytes reads the whole region, which must not exceed limit.
func (m *message) bytes(limit int64) []byte {
	if m.err != nil {
		return nil
	}
	if m.end-m.at > limit {
		m.fail("a field of %d bytes is longer than the %d expected here", m.end-m.at, limit)
		return nil
	}
	b := make([]byte, m.end-m.at)
	if _, err := io.ReadFull(io.NewSectionReader(m.r, m.at, m.end-m.at), b); err != nil {
		m.err = err
		return nil
	}
	return b
}

func (m *message) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("%w at byte %d: %s", errProtobuf, m.at, fmt.Sprintf(format, args...))
	}
}
