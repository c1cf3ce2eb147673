// Package gguf reads and writes GGUF files: a list of metadata key/value pairs, a directory of named tensors and their
// data. It knows the container and no model architecture.
//
// # Invariants
//
//  1. Open validates everything before it returns: a *File never leads to a read outside the mapping, whatever the bytes
//     are. A file that breaks the format gives a *FormatError with the byte offset, never a panic.
//  2. No allocation is larger than a small multiple of the bytes the file really has, whatever its counts claim.
//  3. Tensor.Data aliases the mapping: it is read-only and dies with Close.
//  4. What Writer writes, Open accepts and gives back: same keys in the same order, same bytes.
//
// # Concurrency
//
// A *File is immutable after Open and safe for concurrent use until Close. A Writer belongs to one goroutine.
//
// # Source
//
// The GGUF specification (ggml/docs/gguf.md), versions 2 and 3, little endian.
package gguf
