package llm

import "strings"

// stopper finds stop strings in a text that arrives in pieces. It holds back text that may turn out to be the beginning
// of one, so that not even a part of a stop string gets out.
type stopper struct {
	stops []string
	held  string
}

// push takes new text and returns what may be sent now. When a stop string is complete it returns the text before the
// earliest one and true; nothing may be pushed afterwards.
func (s *stopper) push(text string) (out string, stopped bool) {
	s.held += text
	first := -1
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		out, s.held = s.held[:first], ""
		return out, true
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
			}
		}
	}
	out, s.held = s.held[:len(s.held)-keep], s.held[len(s.held)-keep:]
	return out, false
}

// flush returns what was held back: the text has ended, so it is no stop string.
func (s *stopper) flush() string {
	out := s.held
	s.held = ""
	return out
}
