//go:build linux || darwin

package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// lock takes an exclusive lock on the file at path, waiting for another process that has it.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// checkSpace fails early when the disk of dir has no room for need bytes.
func checkSpace(dir string, need int64) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return nil // a file system that does not say is tried
	}
	if free := int64(s.Bavail) * int64(s.Bsize); free < need {
		return fmt.Errorf("%d MB are needed and %d MB are free: %w", need/1e6, free/1e6, syscall.ENOSPC)
	}
	return nil
}

// isolate puts cmd into a process group of its own and kills the whole group when it is cancelled: clients are scripts
// that start others.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
