package ingest

import (
	"context"
)

// Parse reads one file. name serves only to choose between formats that the
// content leaves open (Markdown or plain text, which programming language);
// data is not retained. The error is an *Error, or ctx's.
func Parse(ctx context.Context, name string, data []byte, limits Limits) (*Document, error) {
	return nil, failf(Unsupported, "%s: format not recognised", name)
}

// ParseFile is Parse of the file at path, refused before it is read when it is
// larger than limits allow.
func ParseFile(ctx context.Context, path string, limits Limits) (*Document, error) {
	return nil, failf(Unsupported, "%s: format not recognised", path)
}
