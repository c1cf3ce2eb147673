package ragd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowed is the import table of the module: package -> the packages of this module that it may import, in non-test files.
// Imports go one way; a new edge is a design decision and is made here, in review, not by accident.
var allowed = map[string][]string{
	"llm/quant":         {},
	"llm/gguf":          {"llm/quant"},
	"llm/tokenizer":     {"llm/gguf"},
	"llm/chat/jinja":    {},
	"llm/chat":          {"llm/chat/jinja", "llm/gguf", "llm/tokenizer"},
	"llm/kernel":        {"llm/quant"},
	"llm/model":         {"llm/gguf", "llm/kernel", "llm/quant"},
	"llm/kvcache":       {},
	"llm/sample":        {},
	"llm/grammar":       {},
	"llm/sched":         {"llm/grammar", "llm/kvcache", "llm/model", "llm/sample"},
	"llm/external":      {},
	"llm":               {"llm/chat", "llm/external", "llm/gguf", "llm/grammar", "llm/kernel", "llm/kvcache", "llm/model", "llm/quant", "llm/sample", "llm/sched", "llm/tokenizer"},
	"llm/convert":       {"llm/gguf", "llm/quant"},
	"llm/inspect":       {"llm/chat", "llm/gguf", "llm/kernel", "llm/model", "llm/tokenizer"},
	"llm/quantize":      {"llm/gguf", "llm/kernel", "llm/model", "llm/quant", "llm/sample", "llm/tokenizer"},
	"llm/distill":       {"llm/gguf", "llm/kernel", "llm/model", "llm/quant", "llm/tokenizer"},
	"embed":             {"llm", "llm/gguf", "llm/kernel", "llm/model", "llm/tokenizer"},
	"retrieve":          {"embed"},
	"retrieve/analysis": {},
	"sentence":          {},
	"arith":             {},
	"verify":            {"arith", "embed", "retrieve/analysis", "sentence"},
	"personal":          {},
	"ingest":            {"embed", "personal", "sentence"},
	"migrations":        {},
	"store":             {"embed", "ingest", "migrations", "personal", "retrieve", "retrieve/analysis"},
	"store/localpg":     {},
	"answer":            {"arith", "embed", "llm", "llm/chat", "llm/grammar", "llm/sample", "llm/tokenizer", "retrieve", "retrieve/analysis", "sentence", "verify"},
	"catalog":           {"llm/convert"},
	"eval":              {"answer", "arith", "embed", "ingest", "llm", "llm/chat", "retrieve", "retrieve/analysis", "store", "verify"},
	"web":               {},
	"login":             {},
	"server":            {"answer", "embed", "ingest", "llm", "llm/chat", "llm/grammar", "llm/sample", "login", "retrieve", "store", "web"},
	"bench":             {"embed", "llm", "llm/gguf", "llm/kernel", "llm/model", "llm/sample", "llm/tokenizer"},
}

// owned names the third-party modules that may be imported by certain packages only.
var owned = map[string][]string{
	"github.com/gin-gonic/gin":            {"server"},
	"github.com/jackc/pgx/v5":             {"store", "internal/pgtest"},
	"github.com/pgvector/pgvector-go":     {"store"},
	"github.com/pressly/goose/v3":         {"store"},
	"github.com/alecthomas/kong":          {"cmd/ragd"},
	"github.com/stretchr/testify":         {"internal/pgtest", "retrieve/indextest"},
	"github.com/klippa-app/go-pdfium":     {"ingest"},
	"github.com/fsnotify/fsnotify":        {"ingest"},
	"github.com/tetratelabs/wazero":       {"ingest"},
	"github.com/vbauerster/mpb/v8":        {"cmd/ragd"},
	"github.com/prometheus/client_golang": {"server"},
	"github.com/modelcontextprotocol":     {"server"},
	"github.com/coreos/go-oidc/v3":        {"login"},
	"golang.org/x/oauth2":                 {"login"},
	"golang.org/x/image":                  {"ingest"},
	"go.opentelemetry.io/otel":            {"server", "cmd/ragd"},
}

// goFiles calls fn for every Go file of the module; files are parsed in this process, so that a forbidden import is seen even where the test
// cache would replay the output of a child process.
func goFiles(t *testing.T, fn func(pkg, path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "tools" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			fn(filepath.ToSlash(filepath.Dir(path)), path)
		}
		return nil
	})
	require.NoError(t, err)
}

func TestImportsGoOneWay(t *testing.T) {
	goFiles(t, func(pkg, path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		require.NoError(t, err, path)
		for _, spec := range file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			checkImport(t, pkg, path, imported)
		}
	})
}

func checkImport(t *testing.T, pkg, path, imported string) {
	for module, owners := range owned {
		if (imported == module || strings.HasPrefix(imported, module+"/")) && !slices.Contains(owners, pkg) {
			t.Errorf("%s imports %s, which belongs to %v", path, imported, owners)
		}
	}
	if strings.HasPrefix(pkg, "llm") && strings.Contains(strings.Split(imported, "/")[0], ".") &&
		!strings.HasPrefix(imported, "golang.org/x/sys") && !strings.HasPrefix(imported, "golang.org/x/text") {
		t.Errorf("%s: llm and below import the standard library only, not %s", path, imported)
	}
	inner, ours := strings.CutPrefix(imported, "ragd/")
	if !ours || pkg == "cmd/ragd" || strings.HasPrefix(pkg, "internal/") || strings.HasSuffix(pkg, "test") {
		return
	}
	edges, known := allowed[pkg]
	if !known {
		t.Errorf("%s: package %s is missing in the import table of deps_test.go", path, pkg)
		return
	}
	if !slices.Contains(edges, inner) && !strings.HasPrefix(inner, pkg+"/") {
		t.Errorf("%s: %s must not import %s (see the import table in deps_test.go)", path, pkg, inner)
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	goFiles(t, func(pkg, path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		comments[pkg] = append(comments[pkg], nil...)
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.PackageClauseOnly|parser.ParseComments)
		require.NoError(t, err, path)
		if file.Doc != nil {
			comments[pkg] = append(comments[pkg], path)
		}
	})
	for pkg, files := range comments {
		if len(files) != 1 {
			t.Errorf("package %s has %d package comments, want exactly one: %v", pkg, len(files), files)
		}
	}
}
