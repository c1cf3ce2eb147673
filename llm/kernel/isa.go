package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// ISA is an instruction set the kernels are written for.
type ISA uint8

// The instruction sets, in ascending order of speed.
const (
	Generic ISA = iota // plain Go: every platform, and the reference for the others
	AVX2               // AVX2, FMA and F16C
	AVX512             // AVX-512 F, BW, DQ, VL and VNNI
)

var isaNames = [...]string{"generic", "avx2", "avx512"}

// String returns the name that RAGD_ISA accepts: "generic", "avx2" or "avx512".
func (i ISA) String() string {
	if int(i) < len(isaNames) {
		return isaNames[i]
	}
	return fmt.Sprintf("isa %d", uint8(i))
}

// active is read by every dispatch. It is set before main and by tests only, so that kernels need no synchronization.
var (
	active    ISA
	activeErr error
)

func init() { active, activeErr = chooseISA(os.Getenv("RAGD_ISA")) }

// chooseISA returns the set that the variable names, or the best available one when it is empty, unknown or unavailable;
// the latter two are errors as well.
func chooseISA(name string) (ISA, error) {
	available := Available()
	best := available[len(available)-1]
	if name == "" {
		return best, nil
	}
	i := slices.Index(isaNames[:], strings.ToLower(name))
	if i < 0 {
		return best, fmt.Errorf("kernel: RAGD_ISA=%s is unknown: use generic, avx2 or avx512", name)
	}
	if !slices.Contains(available, ISA(i)) {
		return best, fmt.Errorf("kernel: RAGD_ISA=%s is not available in this build on this machine: use one of %v", name, available)
	}
	return ISA(i), nil
}

// Active returns the instruction set in use: the best that the machine has, or what RAGD_ISA asked for.
func Active() ISA { return active }

// ISAError reports that RAGD_ISA asked for a set that is unknown or unavailable; the best available one is in use then.
func ISAError() error { return activeErr }

// Available returns the instruction sets that this build can use on this machine, in ascending order.
func Available() []ISA { return availableISAs() }

// SetISA switches the kernels to another available set. It is meant for tests and must not run beside kernels.
func SetISA(i ISA) error {
	if !slices.Contains(Available(), i) {
		return fmt.Errorf("kernel: instruction set %s is not available in this build on this machine", i)
	}
	active = i
	return nil
}
