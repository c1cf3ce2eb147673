package main

import (
	"os"
	"strconv"
	"strings"
)

// assumedMemory is what a system that does not say gets: enough for the default model.
const assumedMemory = 8 << 30

// availableMemory is what this process may use, in bytes: the memory the system calls available, or the container's limit when that is smaller.
func availableMemory() int64 {
	available := int64(assumedMemory)
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			fields := strings.Fields(line)
			if len(fields) >= 2 && fields[0] == "MemAvailable:" {
				if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
					available = kib << 10
				}
			}
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			available = min(available, limit)
		}
	}
	return available
}
