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
//  1. Document.Text is valid UTF-8 without NUL, CR or byte order mark. What is
//     quoted from it is what the author wrote: no markup is added, and text
//     formats keep the author's code points.
//  2. Every range is half-open and in bytes of Document.Text. A passage's Text
//     equals Document.Text[Start:End], always.
//  3. Every visible character of the text lies in at least one passage, no
//     passage crosses a page, and none holds more than Splitter.MaxTokens tokens
//     with its context.
//  4. A reader never opens a second file, never resolves an external entity,
//     never follows a link and never reaches the network.
//  5. A hostile file ends in an *Error, within the limits of [Limits]; a panic
//     inside a reader is reported as class corrupt.
//  6. A document version becomes visible in one step, when all its vectors are
//     stored; until then readers see the version before it. The same holds for
//     a corpus that changes its [Index].
//  7. A pipeline works only on versions made for its own [Index].
//
// # Concurrency
//
// Parse, Split and Run may be called from any number of goroutines. Several
// Runs, in one process or in many, share the work of one Store through leases.
//
// # Source
//
// Unicode UAX #29 (sentences), UAX #15 (normalisation forms); ISO 32000-2
// (PDF, read by PDFium compiled to WebAssembly); ECMA-376 / ISO 29500 (docx,
// pptx, xlsx); OASIS OpenDocument 1.3; EPUB 3.3; RTF 1.9.1; RFC 5322, 2045 and
// 4155 (mail); RFC 4180 (csv); nbformat 4.
package ingest
