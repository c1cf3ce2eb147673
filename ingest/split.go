package ingest

// Splitter cuts documents into passages. The zero value of a field means its
// default. Safe for concurrent use when Ends is.
type Splitter struct {
	MaxTokens int // most tokens of a passage with its context; default 320
	Overlap   int // tokens shared by neighbours within one long paragraph; default 40
	// Ends gives the byte end of each of text's tokens, in the embedder's own
	// vocabulary, special tokens not counted. nil: a rough count of 4 bytes a token.
	Ends func(text string) []int
}

// Split cuts d into passages, in order.
func (s *Splitter) Split(d *Document) []Passage { return nil }
