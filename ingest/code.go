package ingest

import (
	"context"
	"strings"
)

// codeNames are the extensions of source code and configuration, which is kept
// as it is. Languages that look like prose to a reader (Markdown) are not here.
var codeNames = set(".c .h .cc .cpp .cxx .hpp .hh .m .mm .cs .java .kt .kts .scala .groovy .go .rs .swift .zig .d .nim " +
	".py .pyi .pyx .rb .pl .pm .php .lua .tcl .r .jl .m4 .sh .bash .zsh .fish .ps1 .bat .cmd " +
	".js .mjs .cjs .jsx .ts .tsx .vue .svelte .css .scss .sass .less .sql .graphql .proto .thrift " +
	".hs .lhs .ml .mli .fs .fsx .fsi .elm .ex .exs .erl .hrl .clj .cljs .lisp .el .scm .rkt " +
	".f .f90 .f95 .for .pas .ada .adb .ads .cob .cbl .asm .s .v .sv .vhd .vhdl " +
	".yaml .yml .toml .ini .cfg .conf .properties .env .tf .hcl .nix .cmake .mk .gradle .bazel .bzl .dockerfile .diff .patch .tex .bib .sty")

var codeFiles = set("makefile dockerfile containerfile jenkinsfile vagrantfile rakefile gemfile cmakelists.txt go.mod go.sum .gitignore .editorconfig")

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// readCode keeps the text as it is. Blocks begin where an unindented line
// follows an empty one: a function, a class, a section.
func readCode(ctx context.Context, s *source, b *builder) error {
	text, offsets := s.plain(b, "")
	b.verbatim(text, offsets.trace(codeBlocks(text)))
	return nil
}

func codeBlocks(text string) []Block {
	var blocks []Block
	pos, start, end := 0, -1, 0
	empty := true // the previous line was
	for line := range strings.Lines(text) {
		blank := strings.TrimSpace(line) == ""
		if !blank {
			opens := empty && !strings.ContainsAny(line[:1], " \t})]")
			if start >= 0 && opens {
				blocks = append(blocks, Block{Kind: Code, Start: start, End: end})
				start = -1
			}
			if start < 0 {
				start = pos
			}
			end = pos + len(strings.TrimRight(line, " \t\r\n\f\v"))
		}
		empty = blank
		pos += len(line)
	}
	if start >= 0 {
		blocks = append(blocks, Block{Kind: Code, Start: start, End: end})
	}
	return blocks
}
