// Package web is the page: plain HTML, CSS and JavaScript in static/, embedded into the binary. It talks to the same HTTP API as everybody else and
// loads nothing from anywhere else. main.js is the entry; ask.js, source.js and documents.js are what a user sees, api.js and dom.js what they share.
// Its tests are in package server, because they need a server: they drive Chromium.
//
// # Invariants
//
//  1. Text from documents, answers and users reaches the page as text nodes only, never as markup.
//  2. The page works without a build step: what is in static/ is what the browser gets.
package web

import (
	"embed"
	"io/fs"
)

//go:embed static
var files embed.FS

// Files returns the page's files, index.html at the root.
func Files() fs.FS {
	root, err := fs.Sub(files, "static")
	if err != nil {
		panic("web: embedded files: " + err.Error()) // the folder is embedded above: a bug
	}
	return root
}
