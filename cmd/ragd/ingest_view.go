package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"ragd/ingest"
)

// ingestView shows a run of the pipeline: a line for the whole and one for each file that is worked on. Without a terminal, a line of text every few
// seconds.
type ingestView struct {
	mu       sync.Mutex
	p        *progress
	corpus   string
	pool     *mpb.Progress
	total    *mpb.Bar
	files    map[string]*fileLine
	now      ingest.Progress
	started  time.Time
	ended    time.Time
	reported time.Time
}

// fileLine is the bar of one file.
type fileLine struct {
	bar   *mpb.Bar
	state ingest.State
}

func (p *progress) ingestion(corpus string) *ingestView {
	v := &ingestView{p: p, corpus: corpus, files: make(map[string]*fileLine), started: time.Now(), reported: time.Now()}
	if p.terminal {
		v.pool = mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(30))
		v.total = v.pool.AddBar(0, mpb.BarPriority(1<<30), mpb.PrependDecorators(decor.Name("ingesting ")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + v.line() })))
	}
	return v
}

// line says where the whole stands. Called by the renderer, too.
func (v *ingestView) line() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return describeProgress(v.now)
}

// describeProgress promises nothing that is not known: without a rate, or while folders are still being read, there is no remaining time.
func describeProgress(p ingest.Progress) string {
	text := fmt.Sprintf("%d of %d documents", p.Documents+p.Unchanged+p.Failed, p.DocumentsKnown)
	if p.Walking {
		text += " found so far"
	}
	text += fmt.Sprintf(", %d passages", p.Passages)
	if p.PassagesKnown > p.Passages {
		text += fmt.Sprintf(" of %d", p.PassagesKnown)
		if p.BytesKnown > p.Bytes {
			text += " and more"
		}
	}
	if p.PerSecond > 0 {
		text += fmt.Sprintf(", %.0f/s", p.PerSecond)
	}
	if p.Remaining > 0 {
		text += fmt.Sprintf(", about %s left", p.Remaining.Round(roundFor(p.Remaining)))
	}
	return text
}

// roundFor is the precision that an estimate of d deserves.
func roundFor(d time.Duration) time.Duration {
	if d > 10*time.Minute {
		return time.Minute
	}
	return time.Second
}

// show takes the state of the run.
func (v *ingestView) show(p ingest.Progress) {
	v.mu.Lock()
	v.now = p
	report := !v.p.terminal && time.Since(v.reported) >= 5*time.Second
	if report {
		v.reported = time.Now()
	}
	v.mu.Unlock()
	if report {
		fmt.Fprintf(v.p.out, "  ingesting: %s (%.0f%%)\n", describeProgress(p), 100*p.Done())
	}
	if v.p.terminal {
		v.total.SetTotal(1000, false)
		v.total.SetCurrent(int64(1000 * p.Done()))
		v.showFiles(p.Files)
	}
}

// showFiles keeps one line for each file in hand. Only show calls it, one call at a time.
func (v *ingestView) showFiles(files []ingest.FileProgress) {
	for path, line := range v.files {
		if !slices.ContainsFunc(files, func(f ingest.FileProgress) bool { return f.Path == path }) {
			line.bar.Abort(true)
			delete(v.files, path)
		}
	}
	for _, f := range files {
		line := v.files[f.Path]
		if line == nil {
			line = &fileLine{}
			line.bar = v.pool.AddBar(0, mpb.PrependDecorators(decor.Name("  "+tail(f.Path, 40)+" ")), mpb.AppendDecorators(decor.CountersNoUnit(" %d / %d passages")))
			v.files[f.Path] = line
		}
		line.state = f.State
		if f.PassagesKnown > 0 {
			line.bar.SetTotal(int64(f.PassagesKnown), false)
			line.bar.SetCurrent(int64(f.Passages))
		}
	}
}

// tail is the last n characters of a path.
func tail(path string, n int) string {
	path = shown(path)
	if runes := []rune(path); len(runes) > n {
		return "…" + string(runes[len(runes)-n+1:])
	}
	return path
}

// shown is a file's name, or an error that holds one, made safe for a terminal: names may hold line ends and escape sequences.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// done ends the display.
func (v *ingestView) done() {
	v.ended = time.Now()
	if v.p.terminal {
		v.showFiles(nil)
		v.total.SetTotal(-1, true)
		v.pool.Wait()
	}
}

func (v *ingestView) took() time.Duration { return v.ended.Sub(v.started) }

// printReport prints a table of what was done, and every file that was left out with its reason and what to do about it.
func printReport(r ingest.Report, corpus string, took time.Duration) {
	t := tabwriter.NewWriter(os.Stderr, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "corpus\tdocuments\tpassages\tunchanged\tmoved\tdeleted\tskipped\tfailed\ttime")
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", corpus, r.Documents, r.Passages, r.Unchanged-len(r.Moved), len(r.Moved), len(r.Removed),
		len(r.Skipped), len(r.Failed), took.Round(10*time.Millisecond))
	t.Flush()
	printNotes(os.Stderr, "moved", r.Moved)
	printNotes(os.Stderr, "deleted", r.Removed)
	printNotes(os.Stderr, "skipped", r.Skipped)
	printNotes(os.Stderr, "failed", r.Failed)
}

// notesShown is how many files with the same reason are named.
const notesShown = 10

// printNotes prints files with a reason each; where many have the same, some of them.
func printNotes(w io.Writer, what string, notes []ingest.Note) {
	times := make(map[string]int)
	for _, n := range notes {
		if times[n.Reason]++; times[n.Reason] > notesShown {
			continue
		}
		class := ""
		if n.Class != "" {
			class = " (" + string(n.Class) + ")"
		}
		fmt.Fprintf(w, "  %s %s: %s%s\n", what, shown(n.Path), shown(n.Reason), class)
		if n.Next != "" {
			fmt.Fprintf(w, "    next: %s\n", n.Next)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(times)) {
		if n := times[reason]; n > notesShown {
			fmt.Fprintf(w, "  %s and %d more: %s\n", what, n-notesShown, shown(reason))
		}
	}
}
