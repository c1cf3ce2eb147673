//go:build unix

package localpg

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

const mib = 1 << 20

// machine is what the settings depend on.
type machine struct {
	memory int64 // bytes that this process may use
	shared int64 // free bytes of /dev/shm, -1 when there is none
}

func thisMachine() machine {
	return machine{memory: memoryBytes(), shared: freeBytes("/dev/shm")}
}

// settings are the server's options for a machine on which a language model takes most of the memory. Everything else stays as PostgreSQL has it.
func settings(m machine, socketDir string) []string {
	// 1/16 of the memory: the index of 100k passages (111 MB for 384 dimensions) stays in memory from 4 GiB on; the operating system caches the rest.
	buffers := min(max(m.memory/16, 64*mib), 1024*mib)
	// An HNSW graph that does not fit while it is built is built many times slower, so this is larger than the usual advice.
	maintenance := min(max(m.memory/16, 64*mib), 1024*mib)
	workers := 2
	if m.shared >= 0 {
		// Parallel builds put the graph into /dev/shm, which is 64 MiB in many containers: they fail when it is full.
		if m.shared/2 < 64*mib {
			workers = 0
		} else {
			maintenance = min(maintenance, m.shared/2)
		}
	}
	options := []string{
		"listen_addresses=", // unix socket only
		"unix_socket_directories=" + socketDir,
		"unix_socket_permissions=0700",
		fmt.Sprintf("shared_buffers=%dMB", buffers/mib),
		fmt.Sprintf("maintenance_work_mem=%dMB", maintenance/mib),
		fmt.Sprintf("max_parallel_maintenance_workers=%d", workers),
		"max_wal_size=1GB",
		"jit=off",
		// The server's log must not hold what documents and questions say: no statements, no DETAIL lines with column values.
		"log_min_error_statement=panic",
		"log_error_verbosity=terse",
	}
	args := make([]string, 0, 2*len(options))
	for _, o := range options {
		args = append(args, "-c", o)
	}
	return args
}

// memoryBytes is the memory of the machine or the limit of this process's control group, whichever is less; 4 GiB when neither is known.
func memoryBytes() int64 {
	total := int64(4096 * mib)
	if f, err := os.Open("/proc/meminfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if rest, ok := strings.CutPrefix(s.Text(), "MemTotal:"); ok {
				if kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
					total = kb << 10
				}
				break
			}
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			total = min(total, limit)
		}
	}
	return total
}
