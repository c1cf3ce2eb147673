package kernel

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// spinTime is how long an idle worker looks for the next job before it sleeps. The gaps between the kernels of one
// forward pass are shorter, a wake-up through the operating system takes about as long, and spinning longer would burn
// a core that other processes need.
const spinTime = 40 * time.Microsecond

// Pool runs kernels on a fixed set of threads. Its workers spin briefly between jobs and then sleep: an idle pool uses no
// processor time. Several views of one pool share its threads; see Background.
type Pool struct {
	*crew
	background bool
}

// crew is what the views of a pool share.
type crew struct {
	gate    gate
	threads int
	run     sync.Mutex          // one job at a time; its holder is worker 0
	job     atomic.Pointer[job] // the latest job; nil before the first
	closed  atomic.Bool
	workers []*worker // [threads-1]: workers 1, 2, …
	scratch []scratch // [threads]: memory of MatMul, by worker
	exited  sync.WaitGroup
}

// job is one Run. A new one is made every time, so that a worker which arrives late holds a finished job and not a
// half-replaced one.
type job struct {
	fn       func(task, worker int)
	n        int64
	next     atomic.Int64 // the next task to take
	done     atomic.Int64 // tasks that have finished
	panicked atomic.Pointer[taskPanic]
	finished chan struct{} // made by a caller that got tired of spinning; see wait
	waiting  atomic.Bool
}

type taskPanic struct{ value any }

type worker struct {
	asleep atomic.Bool
	wake   chan struct{} // capacity 1
}

// NewPool starts a pool of the given number of threads, the calling one included. With threads <= 0 it takes GOMAXPROCS,
// which the runtime derives from the processors, the affinity mask and the cgroup's quota, but no more than the cores.
func NewPool(threads int) *Pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
		if cores := physicalCores(); cores > 0 {
			threads = min(threads, cores)
		}
	}
	p := &Pool{crew: &crew{threads: threads, scratch: make([]scratch, threads)}}
	p.gate.changed.L = &p.gate.mu
	for i := 1; i < threads; i++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		p.exited.Add(1)
		go p.work(w, i)
	}
	return p
}

// Threads returns the number of threads, which bounds the worker index that tasks see.
func (p *Pool) Threads() int { return p.threads }

// Close stops the workers and waits for them. No Run may be in progress or follow.
func (p *Pool) Close() {
	p.run.Lock()
	defer p.run.Unlock()
	if p.closed.Swap(true) {
		return
	}
	for _, w := range p.workers {
		w.rouse()
	}
	p.exited.Wait()
}

// Run calls fn for every task in [0, n) and returns when all have finished. Tasks are handed out in ascending order to
// whichever worker is free; worker is in [0, Threads), and no two tasks run at the same time with the same worker, so
// it can index scratch memory. The caller's goroutine is worker 0. Calls from several goroutines take turns; a task must
// not call Run. A panic in a task is raised again in the caller, after the running tasks have ended.
func (p *Pool) Run(n int, fn func(task, worker int)) {
	if n <= 0 {
		return
	}
	if p.background {
		p.gate.waitForForeground()
	}
	p.run.Lock()
	defer p.run.Unlock()
	if p.background {
		start := now()
		defer func() { p.gate.pay(now() - start) }()
	}
	if n == 1 || p.threads == 1 {
		for i := range n {
			fn(i, 0)
		}
		return
	}
	j := &job{fn: fn, n: int64(n)}
	p.job.Store(j)
	for _, w := range p.workers[:min(len(p.workers), n-1)] {
		if w.asleep.Load() {
			w.rouse()
		}
	}
	j.work(0)
	j.wait()
	if t := j.panicked.Load(); t != nil {
		panic(t.value)
	}
}

// rouse wakes the worker if it sleeps. The channel holds one signal, so that none is lost and none blocks.
func (w *worker) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// work is a worker's life: look for a job that is not the last one, do it, again.
func (p *Pool) work(w *worker, index int) {
	defer p.exited.Done()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	debug.SetPanicOnFault(true) // tasks read mapped files, which somebody may cut; see gguf.File.Reading
	var last *job
	for {
		j := p.await(w, last)
		if j == nil {
			return
		}
		j.work(index)
		last = j
	}
}

// await returns the next job, or nil when the pool is closed: it spins first and sleeps then.
func (p *Pool) await(w *worker, last *job) *job {
	for {
		for start := now(); now()-start < spinTime; {
			for range 16 {
				if j := p.job.Load(); j != last {
					return j
				}
				pause()
			}
			if p.closed.Load() {
				return nil
			}
		}
		// Announce the sleep, then look once more: a job stored before the announcement was seen is found here, and
		// one stored after it sends a signal.
		w.asleep.Store(true)
		if p.job.Load() == last && !p.closed.Load() {
			<-w.wake
		}
		w.asleep.Store(false)
		if p.closed.Load() {
			return nil
		}
	}
}

// work takes tasks until none is left.
func (j *job) work(worker int) {
	for {
		task := j.next.Add(1) - 1
		if task >= j.n {
			return
		}
		j.do(int(task), worker)
	}
}

// do runs one task and counts it. After a panic the tasks that nobody has taken yet are counted without being run.
func (j *job) do(task, worker int) {
	defer func() {
		finished := int64(1)
		if v := recover(); v != nil {
			j.panicked.CompareAndSwap(nil, &taskPanic{v})
			if taken := j.next.Swap(j.n); taken < j.n {
				finished += j.n - taken
			}
		}
		if j.done.Add(finished) == j.n && j.waiting.Load() {
			close(j.finished)
		}
	}()
	j.fn(task, worker)
}

// wait returns when every task has finished: tasks are short, so it spins, but not for ever, because a worker may have
// lost its processor to somebody else.
func (j *job) wait() {
	for start := now(); now()-start < spinTime; {
		for range 16 {
			if j.done.Load() == j.n {
				return
			}
			pause()
		}
	}
	j.finished = make(chan struct{})
	j.waiting.Store(true)
	if j.done.Load() == j.n {
		return // the last task may or may not close the channel; nobody listens
	}
	<-j.finished
}

// epoch makes now a monotonic difference, which time.Since reads without a system call.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }
