package gguf

import (
	"os"
	"strconv"
	"syscall"
)

func mapFile(file *os.File, size int64) (data []byte, unmap func() error, err error) {
	if size > int64(^uint(0)>>1) {
		return nil, nil, syscall.EFBIG
	}
	data, err = syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, &os.SyscallError{Syscall: "mmap of " + strconv.FormatInt(size, 10) + " bytes", Err: err}
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}

// dropPages is advice: a failure changes nothing but the memory in use.
func dropPages(data []byte) { _ = syscall.Madvise(data, syscall.MADV_DONTNEED) }
