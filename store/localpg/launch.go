//go:build unix

package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// errLeaving: the server before this one has not yet released the data.
var errLeaving = errors.New("the previous server still holds the data folder")

// ensure adopts the server that runs on the data, or starts one, and waits until it is ready. Caller holds start.lock.
func (c *Cluster) ensure(ctx context.Context, progress Progress) error {
	deadline := time.Now().Add(15 * time.Second)
	socketDir := ""
	for {
		running, ok := readPIDFile(c.pgdata())
		if ok && serves(running.pid, c.pgdata()) {
			err := c.await(ctx, running.pid, nil, progress)
			if !errors.Is(err, errLeaving) {
				return err
			}
			continue
		}
		if ok {
			if err := c.forget(running.pid); err != nil {
				return err
			}
			// The socket folder of a server that was killed is used again, so that URLs handed out earlier stay good.
			if ownSocketDir(running.socketDir, c.id) {
				socketDir = running.socketDir
			}
		}
		if socketDir == "" {
			var err error
			if socketDir, err = makeSocketDir(c.id); err != nil {
				return err
			}
		}
		err := c.launch(ctx, socketDir, progress)
		// After a kill, the processes of the old server need a moment to see that it is gone, and hold its shared memory until then.
		if errors.Is(err, errLeaving) && time.Now().Before(deadline) {
			if err = pause(ctx, 100*time.Millisecond); err == nil {
				continue
			}
		}
		if err != nil {
			_ = removeSocketDir(socketDir)
		}
		return err
	}
}

// forget removes a postmaster.pid that names a running program other than the server: PostgreSQL would refuse to start for as long as that runs.
// A file that names nobody is left for PostgreSQL, which knows from it which shared memory to look for.
func (c *Cluster) forget(pid int) error {
	if commandOf(pid) == "" {
		return nil
	}
	err := os.Remove(filepath.Join(c.pgdata(), "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// launch starts the server and waits until it is ready.
func (c *Cluster) launch(ctx context.Context, socketDir string, progress Progress) error {
	progress(0, 0, "starting PostgreSQL")
	if err := c.id.own(c.dir); err != nil {
		return err
	}
	log, err := openLog(c.logPath())
	if err != nil {
		return err
	}
	defer log.Close()
	offset, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	// Not bound to ctx: the server outlives Start, and this process, when others use it.
	cmd := c.command(context.Background(), "postgres", append([]string{"-D", c.pgdata()}, settings(thisMachine(), socketDir)...)...)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run postgres: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its reason is in the log
		close(exited)
	}()
	err = c.await(ctx, cmd.Process.Pid, exited, progress)
	if err == nil {
		return nil
	}
	select {
	case <-exited:
		said := tail(c.logPath(), offset)
		if strings.Contains(said, "postmaster.pid") || strings.Contains(said, "shared memory block") {
			return fmt.Errorf("%w: %s", errLeaving, said)
		}
		return fmt.Errorf("the server ended at once: %s%s", said, hint(said))
	default: // ctx ended: do not leave a server behind that nobody waits for
		_ = signalProcess(cmd.Process.Pid, fastShutdown)
		<-exited
		return err
	}
}

// await waits until server pid accepts connections and remembers it. A nil exited is a server that this process did not start.
func (c *Cluster) await(ctx context.Context, pid int, exited <-chan struct{}, progress Progress) error {
	for begun := time.Now(); ; {
		if f, ok := readPIDFile(c.pgdata()); ok && f.pid == pid && f.status == "ready" && answers(f.socketDir) {
			c.mu.Lock()
			c.server = f
			c.mu.Unlock()
			return nil
		}
		select {
		case <-exited:
			return errLeaving
		default:
		}
		if exited == nil && !serves(pid, c.pgdata()) {
			return errLeaving
		}
		if time.Since(begun) > 5*time.Second {
			progress(0, 0, "waiting for PostgreSQL (it may be recovering from a crash)")
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// answers asks the server behind a socket whether it speaks TLS, the shortest question of the protocol. A server that was killed a moment ago may still
// be listed and hold its socket, but says nothing.
func answers(socketDir string) bool {
	conn, err := net.DialTimeout("unix", filepath.Join(socketDir, ".s.PGSQL.5432"), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return false
	}
	var reply [1]byte
	_, err = io.ReadFull(conn, reply[:])
	return err == nil
}

// socketPrefix begins the name of every socket folder, so that none but ours is ever removed.
const socketPrefix = "ragd-pg-"

// maxSocketPath is the most bytes of a unix socket's path on every system (104 on macOS, 108 on Linux, with the final NUL).
const maxSocketPath = 103

// makeSocketDir creates a folder for the socket that only the server's user may enter. It cannot lie in the data folder, whose path may be longer
// than a socket's path may be.
func makeSocketDir(id identity) (string, error) {
	var problems []error
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if base == "" || len(base)+len("/"+socketPrefix+"0123456789/.s.PGSQL.5432.lock") > maxSocketPath {
			continue
		}
		// Another user's server cannot reach what only this user may enter.
		if id.chown && base == os.Getenv("XDG_RUNTIME_DIR") {
			continue
		}
		dir, err := os.MkdirTemp(base, socketPrefix)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		return dir, id.own(dir)
	}
	return "", fmt.Errorf("no folder for the server's socket: %w", errors.Join(problems...))
}

// ownSocketDir reports whether dir is a socket folder that is still there, and nobody else's.
func ownSocketDir(dir string, id identity) bool {
	if !strings.HasPrefix(filepath.Base(dir), socketPrefix) {
		return false
	}
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && info.Mode().Perm() == 0o700 && ownerOf(info) == id.uid
}

// removeSocketDir removes a socket folder with what a killed server left in it.
func removeSocketDir(dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), socketPrefix) {
		return nil
	}
	return os.RemoveAll(dir)
}

// openLog opens the server's log to append; a log that has grown large begins anew, the old one is kept once.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > 16*mib {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
