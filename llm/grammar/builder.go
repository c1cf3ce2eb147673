package grammar

import "math/bits"

// builder assembles a machine's program back to front: every method takes the instruction to go on with and returns the
// one to start at.
type builder struct{ prog []instr }

func (b *builder) emit(in instr) int32 {
	b.prog = append(b.prog, in)
	return int32(len(b.prog) - 1)
}

func (b *builder) ret() int32 { return b.emit(instr{op: opReturn}) }

func (b *builder) class(c byteClass, next int32) int32 {
	return b.emit(instr{op: opByte, class: &c, next: next})
}

// bytes matches one byte of the ranges, given as pairs: "az09".
func (b *builder) bytes(ranges string, next int32) int32 {
	var c byteClass
	for i := 0; i < len(ranges); i += 2 {
		c.add(ranges[i], ranges[i+1])
	}
	return b.class(c, next)
}

func (b *builder) literal(text string, next int32) int32 {
	for i := len(text) - 1; i >= 0; i-- {
		next = b.bytes(string([]byte{text[i], text[i]}), next)
	}
	return next
}

func (b *builder) call(rule, next int32) int32 {
	return b.emit(instr{op: opCall, other: rule, next: next})
}

func (b *builder) either(ways ...int32) int32 {
	at := ways[len(ways)-1]
	for i := len(ways) - 2; i >= 0; i-- {
		at = b.emit(instr{op: opSplit, next: ways[i], other: at})
	}
	return at
}

// star matches part any number of times.
func (b *builder) star(part func(next int32) int32, next int32) int32 {
	at := b.emit(instr{op: opSplit, next: next})
	b.prog[at].other = part(at)
	return at
}

// repeat matches part least to most times; most < 0: any number.
func (b *builder) repeat(part func(next int32) int32, least, most int, next int32) int32 {
	if most < 0 {
		next = b.star(part, next)
	}
	end := next
	for i := most - least; i > 0; i-- {
		next = b.either(end, part(next))
	}
	for range least {
		next = part(next)
	}
	return next
}

// rule returns a place that can be called before its body is known; define fills it in.
func (b *builder) rule() int32 { return b.emit(instr{op: opJump, next: -1}) }

func (b *builder) define(rule, body int32) { b.prog[rule].next = body }

// rune matches one character of [from, to] as UTF-8, without surrogates.
func (b *builder) rune(from, to rune, next int32) int32 {
	var ways []int32
	for _, size := range []struct {
		lo, hi rune
		n      int
	}{{0, 0x7f, 1}, {0x80, 0x7ff, 2}, {0x800, 0xd7ff, 3}, {0xe000, 0xffff, 3}, {0x10000, 0x10ffff, 4}} {
		if lo, hi := max(from, size.lo), min(to, size.hi); lo <= hi {
			ways = append(ways, b.sequence(uint32(lo), uint32(hi), size.n-1, size.n, next))
		}
	}
	return b.either(ways...)
}

// sequence matches the bytes of the characters [lo, hi] that are coded in size bytes, of which rest+1 are left.
func (b *builder) sequence(lo, hi uint32, rest, size int, next int32) int32 {
	shift := 6 * rest
	lead := func(v uint32) byte {
		if rest == size-1 && size > 1 {
			return byte(0xff<<(8-size)) | byte(v>>shift)
		} else if size == 1 {
			return byte(v)
		}
		return 0x80 | byte(v>>shift)&0x3f
	}
	mask := uint32(1)<<shift - 1
	var ways []int32
	for lo <= hi {
		end := hi
		switch {
		case lo>>shift == hi>>shift: // one byte, the rest is a part
		case lo&mask != 0: // up to the next multiple
			end = lo | mask
		case hi&mask != mask: // whole bytes, the last one is a part
			end = hi&^mask - 1
		}
		after := next
		if rest > 0 {
			after = b.sequence(lo&mask, end&mask, rest-1, size, next)
		}
		ways = append(ways, b.bytes(string([]byte{lead(lo), lead(end)}), after))
		lo = end + 1
	}
	return b.either(ways...)
}

// integer matches the decimal numbers [lo, hi] without leading zeros.
func (b *builder) integer(lo, hi int64, next int32) int32 {
	var ways []int32
	if lo < 0 {
		ways = append(ways, b.literal("-", b.natural(uint64(-min(hi, -1)), uint64(-lo), next)))
	}
	if hi >= 0 {
		ways = append(ways, b.natural(uint64(max(lo, 0)), uint64(hi), next))
	}
	return b.either(ways...)
}

func (b *builder) natural(lo, hi uint64, next int32) int32 {
	var ways []int32
	for digits, from, to := 1, uint64(0), uint64(9); ; digits, from, to = digits+1, to+1, to*10+9 {
		if l, h := max(lo, from), min(hi, to); l <= h {
			ways = append(ways, b.digits(l, h, digits, next))
		}
		if hi <= to {
			return b.either(ways...)
		}
	}
}

// digits matches the numbers [lo, hi] with exactly n digits, leading zeros included.
func (b *builder) digits(lo, hi uint64, n int, next int32) int32 {
	unit := pow10(n - 1)
	var ways []int32
	for lo <= hi {
		first, last, end := lo/unit, hi/unit, hi
		switch {
		case first == last:
		case lo%unit != 0:
			end = (first+1)*unit - 1
		case hi%unit != unit-1:
			end = last*unit - 1
		}
		after := next
		if n > 1 {
			after = b.digits(lo%unit, end%unit, n-1, next)
		}
		ways = append(ways, b.bytes(string([]byte{'0' + byte(first), '0' + byte(end/unit)}), after))
		lo = end + 1
	}
	return b.either(ways...)
}

func pow10(n int) uint64 {
	p := uint64(1)
	for range n {
		hi, lo := bits.Mul64(p, 10)
		if hi != 0 {
			panic("grammar: number too long") // integers have at most 18 digits
		}
		p = lo
	}
	return p
}
