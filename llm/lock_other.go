//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package llm

import "os"

// lock stands in where the system has no locks that end with the process: the file says only that the folder is writable.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return func() {}, f.Close()
}
