// Package examples is the sample corpus: the handbook of a company that does not exist, embedded so that the demo needs nothing but the binary.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed handbook.md security.txt benefits.html travel-policy.pdf onboarding.docx
var files embed.FS

// Files returns the documents.
func Files() fs.FS { return files }
