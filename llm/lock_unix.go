//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package llm

import (
	"os"
	"syscall"
)

// lock takes a lock that ends with the process at the latest; it fails at once when another holder has it.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { f.Close() }, nil
}
