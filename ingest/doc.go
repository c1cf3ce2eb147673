// Package ingest turns the files people keep into passages with exact
// provenance: it recognises a file's format by its content, reads it into one
// normalised text with pages and blocks, splits that text into passages sized
// in the embedder's own tokens, embeds them and hands everything to a [Store]
// as durable, resumable work.
//
// [Parse] is one file, [Splitter] one document, [Pipeline] a folder.
//
// # Invariants
//
//  1. Document.Text is valid UTF-8 in NFC-preserving source form: no NUL, no
//     CR, no byte order mark. What is quoted from it is what the author wrote.
//  2. Every range is half-open and in bytes of Document.Text. A passage's Text
//     equals Document.Text[Start:End], always.
//  3. Every byte of the text that is not white space lies in at least one
//     passage, and no passage holds more than Splitter.MaxTokens tokens.
//  4. A reader never opens a second file, never resolves an external entity,
//     never follows a link and never reaches the network.
//  5. A hostile file ends in an *Error, within the limits of [Limits]; a panic
//     inside a reader is reported as class corrupt.
//  6. A document version becomes visible in one step, when all its vectors are
//     stored; until then readers see the version before it.
//
// # Concurrency
//
// Parse and Split may be called from any number of goroutines. A Pipeline runs
// one Run at a time per value; several Pipelines, in one process or in many,
// share the work of one Store through leases.
//
// # Source
//
// Unicode UAX #29 (sentences), UAX #15 (normalisation forms); ISO 32000-2
// (PDF, read by PDFium compiled to WebAssembly); ECMA-376 / ISO 29500 (docx,
// pptx, xlsx); OASIS OpenDocument 1.3; EPUB 3.3; RTF 1.9.1; RFC 5322, 2045 and
// 4155 (mail); RFC 4180 (csv); nbformat 4.
package ingest
