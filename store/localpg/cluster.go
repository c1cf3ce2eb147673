//go:build unix

package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Progress is told what Start is doing: done of total bytes of a stage; total is 0 where a stage cannot be counted.
type Progress func(done, total int64, stage string)

// Cluster is a running private server that this process uses.
type Cluster struct {
	dir   string // data folder of ragd: locks, log, and pgdata below it
	id    identity
	bin   binaries
	users *os.File // shared lock: this process is a user of the server

	mu     sync.Mutex
	server pidFile // what runs now

	leave   context.CancelFunc // ends the watcher
	watched chan struct{}      // closed when it has ended
}

func (c *Cluster) pgdata() string  { return filepath.Join(c.dir, "pgdata") }
func (c *Cluster) logPath() string { return filepath.Join(c.dir, "server.log") }

// Start makes sure that the private server of dataDir runs, installing the programs and creating the data when needed, and returns when it accepts
// connections. A server that dies while the Cluster is in use is started again at the same URL. Each Cluster must be stopped. progress may be nil.
func Start(ctx context.Context, dataDir string, progress Progress) (*Cluster, error) {
	if progress == nil {
		progress = func(int64, int64, string) {}
	}
	c, err := start(ctx, dataDir, progress)
	if err != nil {
		return nil, fmt.Errorf("localpg: start the private PostgreSQL in %s: %w", dataDir, err)
	}
	return c, nil
}

func start(ctx context.Context, dataDir string, progress Progress) (*Cluster, error) {
	dir, err := prepareDir(dataDir)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(ctx, filepath.Join(dir, "start.lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	c := &Cluster{dir: dir, watched: make(chan struct{})}
	if c.id, err = chooseIdentity(); err != nil {
		return nil, err
	}
	if c.bin, err = findBinaries(ctx, c.id, progress); err != nil {
		return nil, err
	}
	if err := c.initialize(ctx, progress); err != nil {
		return nil, err
	}
	if err := c.ensure(ctx, progress); err != nil {
		return nil, err
	}
	if c.users, err = shareFile(filepath.Join(dir, "users.lock")); err != nil {
		return nil, err
	}
	watching, leave := context.WithCancel(context.Background())
	c.leave = leave
	go c.watch(watching)
	return c, nil
}

// prepareDir creates the data folder and returns its path without symbolic links, by which the server is recognised.
func prepareDir(dataDir string) (string, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("the data folder cannot be created: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	probe, err := os.CreateTemp(dir, ".write-")
	if err != nil {
		return "", fmt.Errorf("the data folder is not writable for this user: %w", err)
	}
	probe.Close()
	return dir, os.Remove(probe.Name())
}

// URL is the connection string of ragd's database, for any PostgreSQL client.
func (c *Cluster) URL() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "postgres://ragd@/ragd?host=" + url.QueryEscape(c.server.socketDir)
}

// Programs is the folder of pg_dump, pg_restore and psql of the server's version.
func (c *Cluster) Programs() string { return c.bin.dir }

// Stop ends this process's use of the server; the last user's Stop shuts the server down and waits for that. Close connection pools first.
func (c *Cluster) Stop() error {
	c.leave()
	<-c.watched
	lock, err := lockFile(context.Background(), filepath.Join(c.dir, "start.lock"))
	if err != nil {
		return fmt.Errorf("localpg: stop: %w", err)
	}
	defer lock.Close()
	last := onlyUser(c.users)
	c.users.Close()
	if !last {
		return nil
	}
	if err := c.shutDown(); err != nil {
		return fmt.Errorf("localpg: stop the private PostgreSQL in %s: %w", c.dir, err)
	}
	return nil
}

// shutDown ends the server and removes its socket folder. A checkpoint on a slow disk takes a while; after a minute the server is told to leave
// without one, which its next start repairs.
func (c *Cluster) shutDown() error {
	server, ok := readPIDFile(c.pgdata())
	if !ok || !serves(server.pid, c.pgdata()) {
		return nil
	}
	if err := signalProcess(server.pid, fastShutdown); err != nil {
		return err
	}
	if !c.gone(server.pid, time.Minute) {
		if err := signalProcess(server.pid, immediateShutdown); err != nil {
			return err
		}
		if !c.gone(server.pid, 10*time.Second) {
			return fmt.Errorf("process %d does not end; see %s", server.pid, c.logPath())
		}
	}
	return removeSocketDir(server.socketDir)
}

// gone waits until process pid no longer serves the data.
func (c *Cluster) gone(pid int, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); serves(pid, c.pgdata()); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// watch starts the server again when it has died: the kernel kills the largest process when memory runs out, and a model may be the reason.
func (c *Cluster) watch(ctx context.Context) {
	defer close(c.watched)
	for pause(ctx, time.Second) == nil {
		c.mu.Lock()
		pid := c.server.pid
		c.mu.Unlock()
		if serves(pid, c.pgdata()) {
			continue
		}
		// A failure shows as refused connections, which the users of the URL report; the next round tries again.
		if lock, err := lockFile(ctx, filepath.Join(c.dir, "start.lock")); err == nil {
			_ = c.ensure(ctx, func(int64, int64, string) {})
			lock.Close()
		}
	}
}

// initialize creates the database cluster unless it exists. Caller holds start.lock.
func (c *Cluster) initialize(ctx context.Context, progress Progress) error {
	version, err := os.ReadFile(filepath.Join(c.pgdata(), "PG_VERSION"))
	if err == nil {
		have := strings.TrimSpace(string(version))
		if have != strconv.Itoa(c.bin.major) {
			return fmt.Errorf("the data was made by PostgreSQL %s and the programs in %s are PostgreSQL %d; data of another major version is not opened. "+
				"Set RAGD_PG_BIN to the programs of PostgreSQL %s, save the data with pg_dump, and load it into a new data folder", have, c.bin.dir, c.bin.major, have)
		}
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the data folder: %w", err)
	}
	if fileExists(c.pgdata()) {
		return fmt.Errorf("%s exists but holds no PostgreSQL data: move it away", c.pgdata())
	}
	const room = 200 * mib // a new cluster is 39 MB, its first logs 32 MB
	if free := freeBytes(c.dir); free >= 0 && free < room {
		return fmt.Errorf("the disk has %d MB left, a new database needs %d MB", free/mib, room/mib)
	}
	progress(0, 0, "creating the database")
	leftovers, _ := filepath.Glob(filepath.Join(c.dir, "init-*")) // of an interrupted run
	for _, path := range leftovers {
		os.RemoveAll(path)
	}
	fresh, err := os.MkdirTemp(c.dir, "init-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := c.id.own(c.dir); err != nil {
		return fmt.Errorf("give the data folder to user id %d, which runs the server: %w", c.id.uid, err)
	}
	if err := c.initdb(ctx, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, c.pgdata())
}

// initdb fills dir. Text is compared by code point, and letters are known in all scripts, on every system alike: no index depends on the C
// library's collations, which change between its versions.
func (c *Cluster) initdb(ctx context.Context, dir string) error {
	args := []string{"-D", dir, "-U", "ragd", "--auth-local=trust", "--auth-host=reject", "-E", "UTF8", "--locale=C", "--no-instructions"}
	if c.bin.major >= 17 {
		args = append(args, "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
	}
	// With LC_CTYPE=C, pg_trgm and the text search parsers see only ASCII letters. macOS names the locale otherwise.
	var out []byte
	var err error
	for _, ctype := range []string{"C.UTF-8", "en_US.UTF-8"} {
		if out, err = c.command(ctx, "initdb", append(args, "--lc-ctype="+ctype)...).CombinedOutput(); err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !strings.Contains(string(out), "locale") {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("initdb: %w: %s%s", err, lastLines(out, 4), hint(string(out)))
	}
	single := c.command(ctx, "postgres", "--single", "-D", dir, "postgres")
	single.Stdin = strings.NewReader("CREATE DATABASE ragd\n")
	if out, err = single.CombinedOutput(); err != nil || strings.Contains(string(out), "ERROR") {
		return fmt.Errorf("create database ragd: %v: %s%s", err, lastLines(out, 4), hint(string(out)))
	}
	return nil
}

// command is one of the server's programs, to run as the server's user.
func (c *Cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.bin.path(program), args...)
	cmd.Dir = c.dir
	// PGPORT and its like would change what the programs do.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	c.id.apply(cmd)
	return cmd
}

// hint explains what a message of the programs asks the user to do.
func hint(message string) string {
	switch {
	case strings.Contains(message, "No space left on device"):
		return "\nThe disk is full: free some space and start again; nothing is lost"
	case strings.Contains(message, "could not access directory"), strings.Contains(message, "Permission denied"):
		return "\nThe server's user may not enter a folder on the way to the data: choose a data folder elsewhere, or run ragd as an ordinary user"
	case strings.Contains(message, "could not map anonymous shared memory"):
		return "\nToo little memory is free for the server"
	}
	return ""
}

// tail returns what was written to the log at path after offset, its last lines.
func tail(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return lastLines(text, 6)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
