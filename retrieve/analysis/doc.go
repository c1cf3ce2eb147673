// Package analysis turns text into the terms of the lexical index. Documents and questions go through the same function, so what was written is what
// is found: lower case, stems of the language, words of meaning only, identifiers and numbers as a whole and in parts, Chinese and Japanese by pairs
// of characters.
//
// # Invariants
//
//  1. Terms is a pure function of text and language. When it changes, [Version] grows.
//  2. A term has between 1 and 64 bytes and is valid UTF-8 without NUL, whatever the text is.
//
// # Concurrency
//
// All functions are safe for concurrent use.
//
// # Source
//
// Unicode UAX #29 (word boundaries), UAX #15 (NFKC); Snowball stemmers, https://snowballstem.org.
package analysis
