package ingest

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	stdunicode "unicode"
	"unicode/utf8"

	icu "github.com/gogs/chardet"
	"github.com/wlynxg/chardet"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// utf8Name is the name under which decode reports UTF-8; other encodings have
// their WHATWG names.
const utf8Name = "utf-8"

// decode turns a text file's bytes into UTF-8. declared is the encoding that
// the file or its envelope states, "" if none. A byte order mark wins over it;
// it wins over guessing unless the bytes contradict it.
func decode(data []byte, declared string) (utf []byte, name string) {
	if enc, name := byOrderMark(data); enc != nil {
		return transcode(data, enc), name
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return data, utf8Name
	}
	if enc, name := wideByZeros(data); enc != nil {
		return transcode(data, enc), name
	}
	// Valid multi-byte UTF-8 hardly ever happens by chance, stale labels often do.
	if enc, err := htmlindex.Get(declared); err == nil && (isASCII(data) || !utf8.Valid(data)) {
		name, _ := htmlindex.Name(enc)
		if name != utf8Name && name != "replacement" {
			return transcode(data, enc), name
		}
	}
	if isISO2022JP(data) {
		enc, _ := htmlindex.Get("iso-2022-jp")
		return transcode(data, enc), "iso-2022-jp"
	}
	if mostlyUTF8(data) {
		return data, utf8Name
	}
	enc, name := guess(data)
	return transcode(data, enc), name
}

func isASCII(data []byte) bool {
	for _, c := range data {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func transcode(data []byte, enc encoding.Encoding) []byte {
	out, err := enc.NewDecoder().Bytes(data)
	if err != nil { // decoders replace what they cannot read; an error is a truncated tail
		out = append(out, "\uFFFD"...)
	}
	return out
}

func byOrderMark(data []byte) (encoding.Encoding, string) {
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe, 0, 0}) && len(data)%4 == 0:
		return utf32.UTF32(utf32.LittleEndian, utf32.UseBOM), "utf-32le"
	case bytes.HasPrefix(data, []byte{0, 0, 0xfe, 0xff}):
		return utf32.UTF32(utf32.BigEndian, utf32.UseBOM), "utf-32be"
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), "utf-16le"
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM), "utf-16be"
	}
	return nil, ""
}

// wideByZeros finds UTF-16 and UTF-32 without a mark: blanks, digits and line
// ends make every second (or three of four) bytes zero somewhere, in one
// alignment only, in text of any script.
func wideByZeros(data []byte) (encoding.Encoding, string) {
	sample := data[:min(len(data), 64<<10)&^3]
	if len(sample) < 4 {
		sample = data[:len(data)&^1]
	}
	var zeros [4]int
	for i, c := range sample {
		if c == 0 {
			zeros[i&3]++
		}
	}
	n := len(sample) / 4
	odd, even := zeros[1]+zeros[3], zeros[0]+zeros[2]
	if (odd+even)*4 < len(sample) && mostlyPrintable(sample) { // ASCII with stray NULs
		return nil, ""
	}
	switch {
	case odd+even == 0:
		return nil, ""
	case n > 1 && len(data)%4 == 0 && zeros[0] == 0 && zeros[2] > n*9/10 && zeros[3] > n*9/10:
		return utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM), "utf-32le"
	case n > 1 && len(data)%4 == 0 && zeros[3] == 0 && zeros[0] > n*9/10 && zeros[1] > n*9/10:
		return utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM), "utf-32be"
	case odd > len(sample)/50 && even*20 < odd:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), "utf-16le"
	case even > len(sample)/50 && odd*20 < even:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), "utf-16be"
	}
	return wideEastAsian(sample)
}

// wideEastAsian finds UTF-16 whose only zero bytes are in its line ends.
func wideEastAsian(sample []byte) (encoding.Encoding, string) {
	little, big := eastAsian(sample, binary.LittleEndian), eastAsian(sample, binary.BigEndian)
	switch {
	case little == 0 && big == 0:
		return nil, ""
	case little >= big:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), "utf-16le"
	}
	return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), "utf-16be"
}

// eastAsian counts line ends and characters of the East Asian scripts in UTF-16; 0 if there is anything else that such a text has not.
func eastAsian(sample []byte, order binary.ByteOrder) int {
	n, frequent := 0, 0
	for i := 0; i+1 < len(sample); i += 2 {
		switch r := rune(order.Uint16(sample[i:])); {
		case r == '\n', r == '\r', r == '\t', r >= 0x20 && r < 0x7f, r >= 0x3000 && r < 0x3100:
			frequent++
		case stdunicode.In(r, stdunicode.Han, stdunicode.Hangul), r >= 0x2010 && r < 0x2040, r >= 0xff00 && r < 0xffee:
		default:
			return 0
		}
		n++
	}
	if n < 12 {
		return 0
	}
	return 1 + frequent
}

// mostlyPrintable: of the bytes that aren't zero, nearly all are ASCII text.
func mostlyPrintable(data []byte) bool {
	printable, other := 0, 0
	for _, c := range data {
		switch {
		case c >= 0x20 && c < 0x7f, c == '\n', c == '\r', c == '\t':
			printable++
		case c != 0:
			other++
		}
	}
	return printable > 9*other
}

// isISO2022JP looks for the escapes that select a Japanese set; everything
// else in that encoding is ASCII, so no statistics are needed.
func isISO2022JP(data []byte) bool {
	for _, escape := range []string{"\x1b$B", "\x1b$@", "\x1b(J", "\x1b(I"} {
		if bytes.Contains(data, []byte(escape)) {
			return isASCII(data)
		}
	}
	return false
}

// mostlyUTF8 accepts UTF-8 with a little damage: in any 8-bit encoding valid
// multi-byte sequences are rare, so three of them outweigh one bad byte. What
// has only UTF-8's form (surrogates, overlong sequences) counts as such, too.
func mostlyUTF8(data []byte) bool {
	if utf8.Valid(data) {
		return true
	}
	good, bad := 0, 0
	for i := 0; i < len(data); {
		if data[i] < 0x80 {
			i++
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			n = formUTF8(data[i:])
		}
		if n == 0 {
			bad++
			n = 1
		} else {
			good++
		}
		i += n
	}
	return good >= 3*bad
}

// formUTF8 is the length of the sequence at p if its bytes have the form of UTF-8, else 0.
func formUTF8(p []byte) int {
	n := bits.LeadingZeros8(^p[0])
	if n < 2 || n > 4 || len(p) < n {
		return 0
	}
	for _, c := range p[1:n] {
		if c&0xc0 != 0x80 {
			return 0
		}
	}
	return n
}

// guess judges by statistics: ICU's method first, which is the better one for
// single-byte encodings, then Mozilla's, which knows Thai and the old Mac set.
// Where neither is sure it is windows-1252, in which every byte means something.
func guess(data []byte) (encoding.Encoding, string) {
	// 64 KiB of lines that hold non-ASCII bytes say more than the file's first 64 KiB.
	var sample []byte
	for line := range bytes.Lines(data) {
		if len(sample) > 64<<10 {
			break
		}
		if !isASCII(line) {
			sample = append(sample, line[:min(len(line), 16<<10)]...)
		}
	}
	var names []string
	mozilla := chardet.Detect(sample)
	if mozilla.Encoding == "MacRoman" && mozilla.Confidence > 0.5 && hasC1(sample) {
		names = append(names, "macintosh")
	}
	found, err := icu.NewTextDetector().DetectAll(sample)
	if err == nil { // its only error is that nothing fits
		for _, f := range found {
			if f.Confidence > 15 {
				names = append(names, superset(f.Charset, sample))
			}
		}
	}
	if mozilla.Confidence > 0.4 {
		names = append(names, superset(mozilla.Encoding, sample))
	}
	if pairsUp(sample, "shift_jis") { // short texts: all bytes must pair up
		names = append(names, "shift_jis")
	}
	if pairsUp(sample, "gb18030") {
		names = append(names, "gb18030")
	}
	for _, name := range names {
		if enc, name := charset.Lookup(name); enc != nil && name != utf8Name && fits(sample, enc) {
			return lessOdd(sample, enc, name)
		}
	}
	enc, name := charset.Lookup("windows-1252")
	return lessOdd(sample, enc, name)
}

// hasC1 reports bytes that are control characters in ISO 8859 and letters or
// punctuation in the sets of Windows and the Mac.
func hasC1(data []byte) bool {
	for _, c := range data {
		if c >= 0x80 && c < 0xa0 {
			return true
		}
	}
	return false
}

// superset maps a detected name to what files of that name really use.
func superset(name string, sample []byte) string {
	switch name {
	case "GB2312", "GB-18030", "HZ-GB-2312":
		return "gb18030"
	case "CP932", "SHIFT_JIS":
		return "shift_jis"
	case "CP949":
		return "euc-kr"
	case "ISO-8859-1", "ascii", "":
		return "windows-1252"
	case "ISO-8859-2":
		if hasC1(sample) {
			return "windows-1250"
		}
	case "ISO-8859-6":
		return "windows-1256"
	case "ISO-8859-7":
		return "windows-1253"
	case "ISO-8859-8", "ISO-8859-8-I":
		return "windows-1255"
	case "ISO-8859-9":
		return "windows-1254"
	}
	return name
}

// fits reports that enc reads data without replacing anything, but for a cut tail.
func fits(data []byte, enc encoding.Encoding) bool {
	out, _ := enc.NewDecoder().Bytes(data)
	return bytes.Count(out, []byte("\uFFFD")) <= 1+len(data)/10000
}

// pairsUp reports that high bytes come in runs that could be double-byte characters.
func pairsUp(data []byte, name string) bool {
	pairs, singles := 0, 0
	for i := 0; i < len(data); i++ {
		if data[i] < 0x80 {
			continue
		}
		if name == "shift_jis" && data[i] >= 0xa1 && data[i] <= 0xdf {
			pairs++ // half-width katakana
			continue
		}
		if i+1 < len(data) && (data[i+1] >= 0x80 || name == "shift_jis" && data[i+1] >= 0x40) {
			pairs++
			i++
		} else {
			singles++
		}
	}
	return pairs >= 4 && singles == 0
}
