package personal

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Kind of personal data, in one stable word.
type Kind string

// The kinds of Finding.
const (
	Email      Kind = "email"
	Phone      Kind = "phone"
	Card       Kind = "card"
	IBAN       Kind = "iban"
	NationalID Kind = "national_id"
)

// Policy is what a corpus does about personal data.
type Policy string

// The policies.
const (
	Keep   Policy = "keep"   // flag it, nothing else
	Mask   Policy = "mask"   // hide it in what is searched out, prompted and quoted
	Refuse Policy = "refuse" // do not take documents with it
)

// Finding is one piece of personal data.
type Finding struct {
	Kind       Kind
	Country    string // ISO 3166, of a NationalID or IBAN; else ""
	Start, End int    // bytes of the text
}

// Find lists the personal data of text, in order.
func Find(text string) []Finding {
	var found []Finding
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '@')
		if i < 0 {
			break
		}
		if start, end := address(text, at+i); end > 0 {
			found = append(found, Finding{Kind: Email, Start: start, End: end})
		}
		at += i + 1
	}
	clusters(text, func(start, end int) {
		found = append(found, numbers(text, start, end, found)...)
	})
	slices.SortFunc(found, func(a, b Finding) int { return a.Start - b.Start })
	return found
}

// Kinds are the kinds found in text, each once, sorted.
func Kinds(text string) []string {
	var kinds []string
	for _, f := range Find(text) {
		if !slices.Contains(kinds, string(f.Kind)) {
			kinds = append(kinds, string(f.Kind))
		}
	}
	slices.Sort(kinds)
	return kinds
}

// Hide is text with the letters and digits of all personal data replaced by
// asterisks, one for each byte.
func Hide(text string) string {
	found := Find(text)
	if len(found) == 0 {
		return text
	}
	out := []byte(text)
	for _, f := range found {
		for i := f.Start; i < f.End; i++ {
			if c := out[i]; c >= 0x80 || isAlnum(c) {
				out[i] = '*'
			}
		}
	}
	return string(out)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isAlnum(c byte) bool { return isDigit(c) || isUpper(c) || c >= 'a' && c <= 'z' }

// reserved are domains and endings that no person has: RFC 2606, files.
var reserved = regexp.MustCompile(`(?i)(^|\.)(example(\.[a-z]+)?|test|invalid|localhost|local)$|\.(png|jpe?g|gif|svg|webp|css|js|ts|json|ya?ml|md|txt|go|py)$`)

// address is the e-mail address around the @ at position at; end 0: there is none.
func address(text string, at int) (start, end int) {
	const local = "!#$%&'*+/=?^_{|}~.-"
	start, end = at, at+1
	for start > 0 && at-start < 64 && (isAlnum(text[start-1]) || strings.IndexByte(local, text[start-1]) >= 0) {
		start--
	}
	for start < at && !isAlnum(text[start]) { // quotes and signs before it
		start++
	}
	for end < len(text) && end-at < 255 && (isAlnum(text[end]) || text[end] == '-' || text[end] == '.') {
		end++
	}
	for end > at && !isAlnum(text[end-1]) { // the sentence's full stop
		end--
	}
	name, domain := text[start:at], text[min(at+1, end):end]
	top := domain[strings.LastIndexByte(domain, '.')+1:]
	switch {
	case name == "" || len(top) < 2 || len(top) == len(domain) || strings.ContainsFunc(top, func(r rune) bool { return !unicode.IsLetter(r) }):
		return 0, 0
	case strings.Contains(domain, "..") || strings.Contains(name, "..") || strings.HasPrefix(domain, "-"):
		return 0, 0
	case name == "git" || strings.HasPrefix(text[end:], ":") && strings.Contains(text[end:min(end+40, len(text))], "/"): // git@host:path
		return 0, 0
	case reserved.MatchString(domain):
		return 0, 0
	}
	return start, end
}

// clusterDigits is the least of digits that any number here has.
const clusterDigits = 6

// clusters calls fn with the ranges of text that may hold numbers: words with
// digits, set apart by single blanks, with six digits or more together; and
// short capital words at their edges. Almost all of a prose text is passed over.
func clusters(text string, fn func(start, end int)) {
	digits, start, end := 0, -1, 0 // of the open cluster
	capital := -1                  // where a short capital word before the cluster begins
	for at := 0; at < len(text); {
		stop := at
		n, plain := 0, true
		for stop < len(text) && !isBlank(text[stop]) {
			if isDigit(text[stop]) {
				n++
			}
			plain = plain && text[stop] < 0x80
			stop++
		}
		short := stop > at && stop-at <= 4 && plain && strings.ToUpper(text[at:stop]) == text[at:stop]
		joined := start >= 0 && end == at-1 && text[end] == ' '
		switch {
		case n > 0 && joined:
			digits, end = digits+n, stop
		case n > 0:
			if digits >= clusterDigits {
				fn(start, end)
			}
			digits, start, end = n, at, stop
			if capital >= 0 {
				start = capital
			}
		case short && joined:
			end = stop
		default:
			if digits >= clusterDigits {
				fn(start, end)
			}
			digits, start = 0, -1
		}
		capital = -1
		if n == 0 && short && start < 0 && stop < len(text) && text[stop] == ' ' {
			capital = at
		}
		at = stop + 1
	}
	if digits >= clusterDigits {
		fn(start, end)
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// numbers finds what [start,end) of text holds besides what was found already.
func numbers(text string, start, end int, taken []Finding) []Finding {
	var found []Finding
	free := func(from, to int) bool {
		overlaps := func(f Finding) bool { return f.Start < to && f.End > from }
		return !slices.ContainsFunc(found, overlaps) && !slices.ContainsFunc(taken, overlaps)
	}
	words := strings.ContainsFunc(text[max(start-wordsBefore, 0):end], unicode.IsLetter)
	for i, r := range rules {
		if r.after != nil && !words { // a column of figures
			continue
		}
		forms[i].runs(text, start, end, func(start, end int) {
			for at := start; at < end; {
				m := r.form.FindStringIndex(text[at:end])
				if m == nil {
					break
				}
				from, to := at+m[0], at+m[1]
				for at = from + 1; at < end && isAlnum(text[at-1]); at++ { // nothing that begins inside a word is alone
				}
				if !alone(text, from, to) || !free(from, to) || r.after != nil && !r.after.MatchString(text[max(from-wordsBefore, 0):from]) {
					continue
				}
				country, ok := r.check(compact(text[from:to]))
				if ok {
					found = append(found, Finding{r.kind, country, from, to})
					at = to
				}
			}
		})
	}
	return found
}

// wordsBefore is how many bytes before a number may say what it is.
const wordsBefore = 40

// alone: [from,to) is not a part of a longer number, word, path or decimal.
func alone(text string, from, to int) bool {
	if from > 0 {
		c := text[from-1]
		if isAlnum(c) || c == '_' || c == '/' || c == '=' || c == '-' || c == '%' || c == '#' || (c == '.' || c == ',') && from > 1 && isDigit(text[from-2]) {
			return false
		}
	}
	if to < len(text) {
		c := text[to]
		if isAlnum(c) || c == '_' || (c == '.' || c == ',' || c == '-' || c == '/') && to+1 < len(text) && isAlnum(text[to+1]) {
			return false
		}
	}
	return true
}

// compact is s without what separates its digits.
func compact(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" .-/()", r) {
			return -1
		}
		return r
	}, s)
}
