package kernel

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCPUList(t *testing.T) {
	require.Equal(t, []int{0, 1, 2, 3, 8}, parseCPUList("0-3,8"))
	require.Equal(t, []int{5}, parseCPUList("5"))
	require.Empty(t, parseCPUList(""))
	require.Equal(t, []int{2}, parseCPUList("x,2,-1,3-,9-1,0-99999999"))
}

func TestPhysicalCores(t *testing.T) {
	require.LessOrEqual(t, physicalCores(), runtime.NumCPU())
}
