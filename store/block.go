package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// blockPostings is the most postings in a block: about 1 kB, so that a block stays in its page and the last block of a term, which is rewritten
// whenever passages are added, costs little to rewrite.
const blockPostings = 256

// posting says that a passage has a term.
type posting struct {
	passage int64
	count   uint32 // of the term in the passage
	length  uint32 // of the passage, in terms
}

// encodeBlock appends the block format to dst: per posting, uvarint(passage - previous passage), uvarint(count), uvarint(length). ps is in
// ascending order of passage.
func encodeBlock(dst []byte, ps []posting) []byte {
	previous := int64(0)
	for _, p := range ps {
		dst = binary.AppendUvarint(dst, uint64(p.passage-previous))
		dst = binary.AppendUvarint(dst, uint64(p.count))
		dst = binary.AppendUvarint(dst, uint64(p.length))
		previous = p.passage
	}
	return dst
}

var errDamaged = errors.New("the lexical index holds a damaged block: rebuild it with Reindex")

// decodeBlock appends the postings of a block to dst.
func decodeBlock(dst []posting, data []byte) ([]posting, error) {
	previous := int64(0)
	for at := 0; at < len(data); {
		var v [3]uint64
		for i := range v {
			x, n := binary.Uvarint(data[at:])
			if n <= 0 {
				return dst, errDamaged
			}
			v[i] = x
			at += n
		}
		if previous += int64(v[0]); previous < 0 || v[1]|v[2] > math.MaxUint32 {
			return dst, errDamaged
		}
		dst = append(dst, posting{passage: previous, count: uint32(v[1]), length: uint32(v[2])})
	}
	return dst, nil
}

func byPassage(a, b posting) int { return cmp.Compare(a.passage, b.passage) }

// mergePostings returns the union of two ascending lists. Passages are usually added in the order of their ids; a document that took long to embed
// comes late.
func mergePostings(a, b []posting) []posting {
	merged := append(slices.Clip(a), b...)
	if len(a) > 0 && len(b) > 0 && b[0].passage < a[len(a)-1].passage {
		slices.SortFunc(merged, byPassage)
	}
	return merged
}
