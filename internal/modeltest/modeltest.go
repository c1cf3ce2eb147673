// Package modeltest finds real models for tests: in the catalogue's folder, under the catalogue's name or the publisher's.
//
// A model that is missing skips the test with the command that fetches it. The models that `make test` fetches must be there when CI=true, and all of
// them when RAGD_TEST_FULL=1: then a missing one fails, so that a gap cannot hide.
package modeltest

import (
	"os"
	"strings"
	"testing"

	"ragd/catalog"
)

// fetched are the models that scripts/test.sh fetches before the ordinary tests.
var fetched = map[string]bool{"SmolLM2-135M-Instruct.Q4_1": true, "bge-small-en-v1.5-int8": true, "ms-marco-MiniLM-L12-int8": true}

// Path returns the file of the model with a name of the catalogue; ".gguf" at the end of name makes no difference.
func Path(t testing.TB, name string) string {
	t.Helper()
	name = strings.TrimSuffix(name, ".gguf")
	m, ok := catalog.Lookup(name)
	if !ok {
		t.Fatalf("there is no model %s in the catalogue", name)
	}
	path, have := m.Path()
	if have {
		return path
	}
	message := "model " + m.Name + " is not in " + catalog.Dir() + ": run 'ragd models pull " + m.Name + "'"
	if os.Getenv("RAGD_TEST_FULL") == "1" || os.Getenv("CI") == "true" && fetched[m.Name] {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}
