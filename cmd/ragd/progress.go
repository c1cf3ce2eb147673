package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress tells people on standard error what goes on: a line per step, a bar per long piece of work. Without a terminal a bar becomes a line every
// few seconds, so that logs stay readable.
type progress struct {
	out      io.Writer
	terminal bool
}

func newProgress() *progress {
	return &progress{out: os.Stderr, terminal: isatty.IsTerminal(os.Stderr.Fd())}
}

// step says what is being done now.
func (p *progress) step(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)
}

// bar shows work whose total may become known later; set and done may be called from one goroutine at a time.
type bar struct {
	mu       sync.Mutex
	p        *progress
	name     string
	unit     unit
	pool     *mpb.Progress
	line     *mpb.Bar
	started  time.Time
	reported time.Time
	last     int64
	stage    atomic.Value // string: what is being done to the whole right now; no lock, because the renderer asks while one is held
}

type unit uint8

const (
	items unit = iota
	byteCount
)

// bar starts a bar; end it with done.
func (p *progress) bar(name string, u unit) *bar {
	b := &bar{p: p, name: name, unit: u, started: time.Now(), reported: time.Now()}
	if !p.terminal {
		return b
	}
	counters := decor.CountersNoUnit("%d / %d", decor.WCSyncSpace)
	if u == byteCount {
		counters = decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace)
	}
	b.pool = mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(40))
	b.line = b.pool.AddBar(0,
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(counters, decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace), ""),
			decor.Any(func(decor.Statistics) string { return " " + b.currentStage() })))
	return b
}

// at says which stage the work is in.
func (b *bar) at(stage string) { b.stage.Store(stage) }

func (b *bar) currentStage() string {
	stage, _ := b.stage.Load().(string)
	return stage
}

// set reports that done of total units are finished; total 0 means not known yet.
func (b *bar) set(done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = done
	if b.line != nil {
		if total > 0 {
			b.line.SetTotal(total, false)
		}
		b.line.SetCurrent(done)
		return
	}
	if time.Since(b.reported) < 5*time.Second || total == 0 {
		return
	}
	b.reported = time.Now()
	fmt.Fprintf(b.p.out, "  %s: %s of %s (%d%%) %s\n", b.name, b.unit.format(done), b.unit.format(total), done*100/total, b.currentStage())
}

// follow takes progress with the stage that it belongs to.
func (b *bar) follow(done, total int64, stage string) {
	b.at(stage)
	b.set(done, total)
}

// done ends the bar and says how long the work took.
func (b *bar) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line != nil {
		b.line.SetTotal(-1, true)
		b.pool.Wait()
		return
	}
	fmt.Fprintf(b.p.out, "  %s: %s in %s\n", b.name, b.unit.format(b.last), time.Since(b.started).Round(10*time.Millisecond))
}

func (u unit) format(n int64) string {
	if u == byteCount {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprint(n)
}
