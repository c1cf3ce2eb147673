package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPoolRunsEveryTaskOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := testPool(t, threads)
		require.Equal(t, threads, p.Threads())
		for _, n := range []int{0, 1, 2, 7, 1000} {
			counts := make([]atomic.Int32, n)
			var busy [8]atomic.Int32
			p.Run(n, func(task, worker int) {
				require.Less(t, worker, threads)
				require.Equal(t, int32(1), busy[worker].Add(1), "worker %d runs two tasks at a time", worker)
				counts[task].Add(1)
				busy[worker].Add(-1)
			})
			for i := range counts {
				require.Equal(t, int32(1), counts[i].Load(), "task %d of %d on %d threads", i, n, threads)
			}
		}
	}
}

func TestPoolTakesTurns(t *testing.T) {
	p := testPool(t, 3)
	var running atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 200 {
				var tasks atomic.Int32
				first := true
				p.Run(5, func(_, worker int) {
					if worker == 0 && first {
						first = false
						require.Equal(t, int32(1), running.Add(1), "two jobs at a time")
						defer running.Add(-1)
					}
					tasks.Add(1)
				})
				require.Equal(t, int32(5), tasks.Load())
			}
		})
	}
	callers.Wait()
}

func TestPoolRaisesPanics(t *testing.T) {
	for _, threads := range []int{1, 4} {
		p := testPool(t, threads)
		for _, bad := range []int{0, 3, 99} {
			require.PanicsWithValue(t, "broken", func() {
				p.Run(100, func(task, _ int) {
					if task == bad {
						panic("broken")
					}
				})
			})
			var n atomic.Int32
			p.Run(50, func(int, int) { n.Add(1) })
			require.Equal(t, int32(50), n.Load(), "the pool works after a panic")
		}
	}
}

func TestPoolDefaultAndClose(t *testing.T) {
	before := runtime.NumGoroutine()
	p := NewPool(0)
	require.Positive(t, p.Threads())
	require.LessOrEqual(t, p.Threads(), runtime.GOMAXPROCS(0))
	p.Run(10, func(int, int) {})
	p.Close()
	p.Close()
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// The runtime derives GOMAXPROCS from the quota of the control group; the pool takes no more threads than that.
func TestPoolRespectsGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	require.Equal(t, 1, testPool(t, 0).Threads())
}

// TestPoolIdleUsesNoCPU waits until all workers sleep, which they say themselves, and checks that they stay asleep.
func TestPoolIdleUsesNoCPU(t *testing.T) {
	p := testPool(t, 4)
	p.Run(100, func(int, int) {})
	asleep := func() bool {
		for _, w := range p.workers {
			if !w.asleep.Load() {
				return false
			}
		}
		return true
	}
	require.Eventually(t, asleep, 10*time.Second, time.Millisecond)
	var n atomic.Int32
	p.Run(100, func(int, int) { n.Add(1) })
	require.Equal(t, int32(100), n.Load(), "sleeping workers do not hold a job up")
}

func BenchmarkPoolRun(b *testing.B) {
	p := testPool(b, 0)
	for b.Loop() {
		p.Run(2*p.Threads(), func(int, int) {})
	}
}
