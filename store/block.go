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
		delta, count, length, next := readPosting(data, at)
		if previous += int64(delta); next < 0 || previous < 0 || count|length > math.MaxUint32 {
			return dst, errDamaged
		}
		at = next
		dst = append(dst, posting{passage: previous, count: uint32(count), length: uint32(length)})
	}
	return dst, nil
}

// readPosting reads the three numbers of a posting that begin at byte at, and returns where the next posting begins; -1 when they are damaged. Nearly all
// numbers have one or two bytes: those are read without a call, because this is most of what a search in a large corpus does.
func readPosting(data []byte, at int) (delta, count, length uint64, next int) {
	var numbers [3]uint64
	for i := range numbers {
		switch {
		case at < len(data) && data[at] < 0x80:
			numbers[i] = uint64(data[at])
			at++
		case at+1 < len(data) && data[at+1] < 0x80:
			numbers[i] = uint64(data[at]&0x7f) | uint64(data[at+1])<<7
			at += 2
		default:
			x, n := binary.Uvarint(data[min(at, len(data)):])
			if n <= 0 {
				return 0, 0, 0, -1
			}
			numbers[i] = x
			at += n
		}
	}
	return numbers[0], numbers[1], numbers[2], at
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
