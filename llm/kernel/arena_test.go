package kernel

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestArena(t *testing.T) {
	a := NewArena()
	require.Equal(t, "no memory yet", a.HugePages())
	var total int
	var mu sync.Mutex
	seen := map[uintptr]int{}
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for _, n := range []int{0, 1, 63, 64, 65, 4096, 1 << 20, arenaChunk/2 + 1} {
				b := a.Alloc(n)
				require.Len(t, b, n)
				p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
				require.Zero(t, p%64)
				for k := range b {
					if b[k] != 0 {
						t.Errorf("byte %d of a fresh block is %d", k, b[k])
						return
					}
				}
				for k := 0; k < len(b); k += 4096 {
					b[k] = byte(i + 1)
				}
				mu.Lock()
				seen[p] = n
				total += (n + 63) / 64 * 64
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	require.Equal(t, total, a.Bytes())
	for p, n := range seen {
		for q := range seen {
			require.False(t, q > p && q < p+uintptr(n), "blocks overlap")
		}
	}
	t.Log(a.HugePages())
	a.Close()
	require.Zero(t, a.Bytes())
	a.Close()
}

func TestArenaLargerThanChunk(t *testing.T) {
	a := NewArena()
	defer a.Close()
	b := a.Alloc(arenaChunk + 12345)
	b[len(b)-1] = 1
	require.Equal(t, byte(0), b[0])
}

func TestFloat32s(t *testing.T) {
	a := NewArena()
	defer a.Close()
	f := Float32s(a.Alloc(40))
	require.Len(t, f, 10)
	f[9] = 1.5
	require.Empty(t, Float32s(nil))
}
