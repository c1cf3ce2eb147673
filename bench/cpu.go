package bench

import (
	"os"
	"runtime"
	"strings"
)

// CPUName is what the system calls the processor, with family and model, because virtual machines often hide the rest.
func CPUName() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // other systems have none
	fields := map[string]string{}
	for line := range strings.Lines(string(info)) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); fields[key] == "" {
			fields[key] = strings.TrimSpace(value)
		}
	}
	name := fields["model name"]
	if name == "" {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	return name + " (family " + fields["cpu family"] + " model " + fields["model"] + ")"
}
