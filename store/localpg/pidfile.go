//go:build unix

package localpg

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pidFile is what a server writes about itself in its data folder.
type pidFile struct {
	pid       int
	socketDir string
	status    string // "starting", "stopping", "ready", "standby"
}

// readPIDFile reads postmaster.pid of the cluster at pgdata; false when there is none or the server has not yet written all of it.
func readPIDFile(pgdata string) (pidFile, bool) {
	text, err := os.ReadFile(filepath.Join(pgdata, "postmaster.pid"))
	if err != nil {
		return pidFile{}, false
	}
	lines := strings.Split(string(text), "\n")
	line := func(n int) string { // 1-based, as in pidfile.h
		if n > len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[n-1])
	}
	pid, err := strconv.Atoi(line(1))
	if err != nil || pid <= 0 {
		return pidFile{}, false
	}
	return pidFile{pid: pid, socketDir: line(5), status: line(8)}, true
}

// serves reports whether process pid is the server of the cluster at pgdata: after a restart of a container another program may have its number.
func serves(pid int, pgdata string) bool {
	command := commandOf(pid)
	return strings.Contains(command, "postgres") && strings.Contains(command, " -D "+pgdata+" ")
}
