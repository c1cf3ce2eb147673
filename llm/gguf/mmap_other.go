//go:build !linux

package gguf

import (
	"fmt"
	"io"
	"os"
)

func mapFile(file *os.File, size int64) (data []byte, unmap func() error, err error) {
	if size > int64(^uint(0)>>1) {
		return nil, nil, fmt.Errorf("a file of %d bytes does not fit into the address space", size)
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, nil, err
	}
	return data, func() error { return nil }, nil
}

// dropPages does nothing: the data was read into ordinary memory, which lives as long as the File.
func dropPages([]byte) {}
