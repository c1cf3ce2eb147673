package model

import "ragd/llm/kernel"

// rowRunner spreads elementwise work on rows over a pool. Its functions are bound
// once, so that a step allocates no closures.
type rowRunner struct {
	pool *kernel.Pool
	n    int // rows
	per  int // rows per task
	fn   func(row int)
	task func(task, worker int)
}

func newRowRunner(p *kernel.Pool) *rowRunner {
	r := &rowRunner{pool: p}
	r.task = r.run
	return r
}

// parallelRows is the least number of rows that are spread: below it a barrier
// costs more than the work. maxRowsPerTask keeps the ends of the threads together.
const (
	parallelRows   = 4
	maxRowsPerTask = 16
)

// each calls fn for rows [0, n).
func (r *rowRunner) each(n int, fn func(row int)) {
	if n < parallelRows {
		for row := range n {
			fn(row)
		}
		return
	}
	r.n, r.fn = n, fn
	r.per = min(max(n/(4*r.pool.Threads()), 1), maxRowsPerTask)
	r.pool.Run((n+r.per-1)/r.per, r.task)
}

func (r *rowRunner) run(task, _ int) {
	for row := task * r.per; row < min((task+1)*r.per, r.n); row++ {
		r.fn(row)
	}
}
