package bench

import (
	"os"
	"strconv"
	"strings"
)

// busy is a reading of the machine's clocks, in ticks.
type busy struct{ all, idle, own int64 }

// readBusy reads them. What children did counts as ours once they have ended. Where the system does not tell, it returns zeros.
func readBusy() busy {
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
	b.own = ownTicks()
	return b
}

// ownTicks is the processor time of this process and of its children that have ended.
func ownTicks() int64 {
	stat, _ := os.ReadFile("/proc/self/stat")
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
