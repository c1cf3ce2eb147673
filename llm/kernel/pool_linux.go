package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// physicalCores counts the cores behind the processors this process may use; 0 when the system does not say. Two
// hyper-threads of a core share the units that kernels saturate, so a second thread only adds waiting.
func physicalCores() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, list, ok := strings.Cut(string(status), "Cpus_allowed_list:")
	if !ok {
		return 0
	}
	list, _, _ = strings.Cut(strings.TrimSpace(list), "\n")
	cores := map[string]bool{}
	for _, cpu := range parseCPUList(list) {
		siblings, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		if err != nil {
			return 0
		}
		cores[string(siblings)] = true
	}
	return len(cores)
}

// parseCPUList parses a list like "0-3,8"; what it cannot read it leaves out.
func parseCPUList(list string) []int {
	const maxCPU = 1 << 14
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 0 || last > maxCPU {
			continue
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
