// Package sentence cuts text into sentences, exactly: the spans are bytes of the text, in order, and only white space lies between them.
//
// Unicode's rules alone break after "Dr.", "Fig." or "approx."; a short list of abbreviations and the shape of what follows mend that. Line breaks that
// separate paragraphs, list items and table rows end a sentence as well, because documents are full of statements without a full stop.
//
// # Invariants
//
//  1. Spans are non-empty, disjoint, ascending, and start and end on a non-space character.
//  2. Every non-space character of the text lies in exactly one span.
//
// # Concurrency
//
// Functions only.
//
// # Source
//
// Unicode Standard Annex #29, section 5 (sentence boundaries).
package sentence
