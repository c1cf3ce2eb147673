package ingest

import "testing"

// For the tests of package ingest_test, which run against Postgres.

// TextEmbedder is textEmbedder.
type TextEmbedder = textEmbedder

// OtherEmbedder is another model than TextEmbedder.
type OtherEmbedder = otherEmbedder

// Handbook is a folder with files of several formats, some of them broken.
func Handbook(t testing.TB) string { return handbook(t) }
