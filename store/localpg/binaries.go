//go:build unix

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Oldest versions that ragd accepts. pgvector 0.8.4 is the first without known index corruption by parallel builds and by vacuum.
const minMajor = 15

var minVector = [3]int{0, 8, 4}

// binaries are the programs of one PostgreSQL installation that has pgvector.
type binaries struct {
	dir   string // holds postgres and initdb
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// findBinaries chooses the installation, in this order: the folder named by RAGD_PG_BIN; the pinned archive, unpacked before or fetched now; a
// suitable installation in PATH, where the archive cannot be had.
func findBinaries(ctx context.Context, id identity, progress Progress) (binaries, error) {
	if dir := os.Getenv("RAGD_PG_BIN"); dir != "" {
		b, err := inspectBinaries(ctx, id, dir)
		if err != nil {
			return binaries{}, fmt.Errorf("RAGD_PG_BIN=%s: %w", dir, err)
		}
		return b, nil
	}
	dir, wheelErr := installWheel(ctx, progress)
	if wheelErr == nil {
		b, err := inspectBinaries(ctx, id, dir)
		if err == nil {
			return b, nil
		}
		wheelErr = err
	}
	if errors.Is(wheelErr, context.Canceled) || errors.Is(wheelErr, context.DeadlineExceeded) {
		return binaries{}, wheelErr
	}
	for _, dir := range pathCandidates() {
		if b, err := inspectBinaries(ctx, id, dir); err == nil {
			return b, nil
		}
	}
	return binaries{}, fmt.Errorf("no PostgreSQL %d or later with pgvector %s or later: %w\n"+
		"Alternatives: set DATABASE_URL to a PostgreSQL server with pgvector, or RAGD_PG_BIN to the folder with its postgres and initdb programs",
		minMajor, versionString(minVector), wheelErr)
}

// pathCandidates lists folders of PATH, and of the usual places of distributions, that hold postgres and initdb.
func pathCandidates() []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	var have []string
	for _, dir := range dirs {
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		if path, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			have = append(have, filepath.Dir(path))
		}
	}
	return have
}

var (
	postgresVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)
	controlVersion  = regexp.MustCompile(`default_version\s*=\s*'(\d+)\.(\d+)\.(\d+)'`)
)

// inspectBinaries checks that the programs in dir run here, under id, and are recent enough.
func inspectBinaries(ctx context.Context, id identity, dir string) (binaries, error) {
	b := binaries{dir: dir}
	cmd := exec.CommandContext(ctx, b.path("postgres"), "--version")
	id.apply(cmd)
	out, err := cmd.Output()
	switch {
	case errors.Is(err, os.ErrNotExist) && fileExists(b.path("postgres")):
		return b, fmt.Errorf("%s does not run on this system (its C library is another one, such as musl): install PostgreSQL and pgvector with the system's package manager", b.path("postgres"))
	case errors.Is(err, os.ErrPermission):
		return b, fmt.Errorf("%s cannot be run by user id %d: set RAGD_CACHE to a folder that every user can read: %w", b.path("postgres"), id.uid, err)
	case err != nil:
		return b, fmt.Errorf("run %s --version: %w%s", b.path("postgres"), err, stderrOf(err))
	}
	m := postgresVersion.FindSubmatch(out)
	if m == nil {
		return b, fmt.Errorf("%s --version says %q", b.path("postgres"), out)
	}
	b.major, _ = strconv.Atoi(string(m[1]))
	if b.major < minMajor {
		return b, fmt.Errorf("%s is PostgreSQL %d, ragd needs %d or later", dir, b.major, minMajor)
	}
	if !fileExists(b.path("initdb")) {
		return b, fmt.Errorf("%s has no initdb program", dir)
	}
	return b, checkVector(b)
}

// checkVector reads the version of pgvector from its control file.
func checkVector(b binaries) error {
	share := ""
	for _, guess := range []string{"../share/extension", "../share/postgresql/extension", "../share/pgsql/extension", "../../../../share/postgresql/" + strconv.Itoa(b.major) + "/extension"} {
		if dir := filepath.Join(b.dir, guess); fileExists(filepath.Join(dir, "plpgsql.control")) {
			share = dir
			break
		}
	}
	text, err := os.ReadFile(filepath.Join(share, "vector.control"))
	if share == "" || err != nil {
		return fmt.Errorf("the PostgreSQL %d in %s has no pgvector extension", b.major, b.dir)
	}
	m := controlVersion.FindSubmatch(text)
	if m == nil {
		return fmt.Errorf("%s/vector.control names no version", share)
	}
	var have [3]int
	for i := range have {
		have[i], _ = strconv.Atoi(string(m[i+1]))
	}
	for i := range have {
		if have[i] != minVector[i] {
			if have[i] < minVector[i] {
				return fmt.Errorf("pgvector %s in %s is too old: %s or later is needed, earlier ones can corrupt indexes", versionString(have), share, versionString(minVector))
			}
			break
		}
	}
	return nil
}

func versionString(v [3]int) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// stderrOf is what a failed program said, as ": text".
func stderrOf(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return ": " + strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}
