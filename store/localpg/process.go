//go:build unix

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attributes returns cmd's process attributes, made when there are none.
func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}

// credentialIdentity starts programs as the ordinary user; only root can.
func credentialIdentity(ordinary identity) identity {
	return identity{uid: ordinary.uid, gid: ordinary.gid, chown: true, apply: func(cmd *exec.Cmd) {
		attributes(cmd).Credential = &syscall.Credential{Uid: uint32(ordinary.uid), Gid: uint32(ordinary.gid)}
	}}
}

// detach keeps the signals of the terminal (Ctrl-C) from cmd: ragd drains first and stops the server last.
func detach(cmd *exec.Cmd) { attributes(cmd).Setsid = true }

// commandOf returns the command line of the running process pid, words separated by blanks; "" when there is none or it is a zombie.
func commandOf(pid int) string {
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return strings.ReplaceAll(strings.TrimRight(string(text), "\x00"), "\x00", " ")
	}
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// signals to a server, by what they ask for.
const (
	fastShutdown      = syscall.SIGINT  // roll back, write a checkpoint, leave
	immediateShutdown = syscall.SIGQUIT // leave now; the next start recovers from the log
)

func signalProcess(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// lockFile opens path and locks it for this file handle alone, waiting for others. Closing the file unlocks it, and so does the end of the process.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			f.Close()
			return nil, fmt.Errorf("wait for another ragd that holds %s: %w", path, err)
		}
	}
}

// shareFile opens path with a lock that any number of handles may share.
func shareFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// onlyUser reports whether nobody else shares f's lock. Called with start.lock held, so that nobody joins meanwhile.
func onlyUser(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// freeBytes is the room in the file system of dir; -1 when unknown.
func freeBytes(dir string) int64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}

// ownerOf is the user id that owns a file.
func ownerOf(info os.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
