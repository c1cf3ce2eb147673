package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// busy is a reading of the machine's clocks, in ticks.
type busy struct{ all, idle, own int64 }

// readBusy reads them. What children do is ours as well: once they have ended the system adds it to our own, until then they must be named. Where the
// system does not tell, it returns zeros.
func readBusy(children ...*Server) busy {
	var b busy
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || i > 8 { // 0 is the name; guest time is part of user time
			continue
		}
		b.all += n
		if i == 4 || i == 5 { // idle, waiting for a disk
			b.idle += n
		}
	}
	b.own = cpuTicks("self")
	for _, c := range children {
		b.own += cpuTicks(strconv.Itoa(c.cmd.Process.Pid))
	}
	return b
}

// cpuTicks is the processor time of a process, or of "self", and of its children that have ended.
func cpuTicks(pid string) int64 {
	stat, _ := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may contain spaces
	fields := strings.Fields(rest)
	var sum int64
	for i := 11; i < 15 && i < len(fields); i++ { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(fields[i], 10, 64) // 0 where it is no number
		sum += n
	}
	return sum
}

// others is the part of the processor time that neither was idle nor ours, since begin.
func (b busy) others(begin busy) float64 {
	all := b.all - begin.all
	if all <= 0 {
		return 0
	}
	return max(0, float64(all-(b.idle-begin.idle)-(b.own-begin.own))/float64(all))
}
