package llm

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// availableMemory returns how much memory this process can still get, in bytes: what the kernel calls available, or what
// the limits of its control groups leave, pages of files that could be dropped included. 0 when nothing says. root is
// the root of the file system.
func availableMemory(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	if kib, ok := field(root, "proc/meminfo", "MemAvailable:"); ok {
		least = kib << 10
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // no control groups: an empty list
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers, path
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			least = min(least, groupLeaves(root, "sys/fs/cgroup", parts[2], "memory.max", "memory.current", "inactive_file"))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			least = min(least, groupLeaves(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// groupLeaves returns the least that a group and the groups around it leave. In a container the group's path may be that
// of the host, which is not mounted; then the mount itself is the group.
func groupLeaves(root fs.FS, mount, group, limitFile, usageFile, cache string) int64 {
	least := int64(math.MaxInt64)
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		at := path.Join(mount, dir)
		limit, limited := number(root, path.Join(at, limitFile)) // "max" is no number: no limit
		usage, known := number(root, path.Join(at, usageFile))
		if limited && known {
			reclaimable, _ := field(root, path.Join(at, "memory.stat"), cache)
			least = min(least, max(limit-usage+reclaimable, 1)) // 0 would mean: unknown
		}
		if dir == "/" {
			return least
		}
	}
}

func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field returns the number after a name in a file of names and numbers.
func field(root fs.FS, file, name string) (int64, bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
