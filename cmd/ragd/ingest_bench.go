package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"ragd/embed"
	"ragd/ingest"
)

type ingestBenchCmd struct {
	Paths    []string `arg:"" optional:"" help:"Files and folders to measure with; none: text made for it." type:"existingpath"`
	MiB      float64  `help:"How much text to make." default:"1" name:"mib"`
	NoEmbed  bool     `help:"Leave the model out: vectors come from a hash, so that parsing, splitting and storing are measured alone." name:"no-embed"`
	KeepText bool     `help:"Keep the corpus 'ragd-bench' afterwards."`
}

// benchCorpus is made and deleted by the benchmark.
const benchCorpus = "ragd-bench"

// Help is shown by ragd ingest bench --help.
func (ingestBenchCmd) Help() string {
	return `Ingests into a corpus of its own, which is deleted afterwards, and prints passages per second end to end, the time of each stage, and what the
embedder alone does with the same passages: the limit of what ingestion can reach.

  ragd ingest bench
  ragd ingest bench --no-embed --mib 50`
}

func (k ingestBenchCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	pipeline, err := a.openPipeline(ctx)
	if err != nil {
		return err
	}
	encoder := pipeline.Embedder
	if k.NoEmbed {
		pipeline.Embedder = hashEmbedder{dim: encoder.Dim()}
	}
	paths, cleanup, err := k.material()
	if err != nil {
		return err
	}
	defer cleanup()
	if index, err := db.Index(ctx, "", benchCorpus); err != nil {
		return err
	} else if (index != ingest.Index{}) {
		if err := db.DeleteCorpus(ctx, "", benchCorpus); err != nil {
			return err
		}
	}
	view := a.progress.ingestion(benchCorpus)
	report, err := pipeline.Run(ctx, "", benchCorpus, paths, view.show)
	view.done()
	if err != nil {
		return err
	}
	limit := 0.0
	if !k.NoEmbed {
		if limit, err = k.limit(ctx, a, encoder); err != nil {
			return err
		}
	}
	k.print(report, view.took(), limit)
	if k.KeepText {
		return nil
	}
	return db.DeleteCorpus(ctx, "", benchCorpus)
}

// material is what is ingested.
func (k ingestBenchCmd) material() ([]string, func(), error) {
	if len(k.Paths) > 0 {
		return k.Paths, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "ragd-bench-")
	if err != nil {
		return nil, nil, err
	}
	cleanup := func() { os.RemoveAll(dir) }
	rng := rand.New(rand.NewPCG(1, 2))
	const fileBytes = 64 << 10
	for i := range max(1, int(k.MiB*(1<<20)/fileBytes)) {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.txt", i)), []byte(prose(rng, fileBytes)), 0o600); err != nil {
			cleanup()
			return nil, nil, err
		}
	}
	return []string{dir}, cleanup, nil
}

// prose makes text whose words are as unevenly common as those of a language: n bytes, sentences of 5 to 25 words, paragraphs of 3 to 8 sentences.
func prose(rng *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		for range 3 + rng.IntN(6) {
			for w := range 5 + rng.IntN(21) {
				if w > 0 {
					b.WriteByte(' ')
				}
				for x := int(math.Exp(rng.Float64() * math.Log(60_000))); x > 0; x /= 16 {
					b.WriteString([16]string{"an", "be", "co", "de", "el", "fi", "go", "ha", "in", "ju", "ka", "lo", "me", "no", "or", "pe"}[x%16])
				}
			}
			b.WriteString(". ")
		}
		b.WriteString("\n\n")
	}
	return b.String()
}

// limit is how many of the corpus's passages the embedder alone does in a second.
func (k ingestBenchCmd) limit(ctx context.Context, a *app, encoder embed.Embedder) (float64, error) {
	documents, err := documentsBelow(ctx, a.db, benchCorpus, "")
	if err != nil {
		return 0, err
	}
	const enough = 1024
	var texts []string
	for _, d := range documents {
		passages, err := a.db.LivePassages(ctx, "", d.ID)
		if err != nil {
			return 0, err
		}
		for _, p := range passages {
			texts = append(texts, p.Indexed())
		}
		if len(texts) >= enough {
			break
		}
	}
	if len(texts) == 0 {
		return 0, nil
	}
	began := time.Now()
	if _, err := encoder.Embed(ctx, embed.Passage, texts); err != nil {
		return 0, err
	}
	return float64(len(texts)) / time.Since(began).Seconds(), nil
}

func (k ingestBenchCmd) print(r ingest.Report, took time.Duration, limit float64) {
	rate := float64(r.Passages) / took.Seconds()
	fmt.Printf("%d documents, %d passages in %s: %.0f passages/s, %d cores, peak memory %d MiB\n", r.Documents, r.Passages, took.Round(10*time.Millisecond), rate,
		runtime.GOMAXPROCS(0), peakMemory()>>20)
	if limit > 0 {
		fmt.Printf("the embedder alone: %.0f passages/s; ingestion reaches %.0f%% of it\n", limit, 100*rate/limit)
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "stage\ttime in it\tµs a passage\t")
	for _, s := range []struct {
		name string
		took time.Duration
	}{{"parse", r.Spent.Parse}, {"split", r.Spent.Split}, {"embed", r.Spent.Embed}, {"store", r.Spent.Store}} {
		fmt.Fprintf(t, "%s\t%s\t%.0f\t\n", s.name, s.took.Round(time.Millisecond), float64(s.took.Microseconds())/float64(max(1, r.Passages)))
	}
	t.Flush()
	fmt.Println("stages overlap: parsing and splitting run on several workers, storing beside embedding")
}

// hashEmbedder makes vectors at no cost worth measuring.
type hashEmbedder struct{ dim int }

func (hashEmbedder) Model() string { return "hash (benchmark)" }
func (e hashEmbedder) Dim() int    { return e.dim }

func (e hashEmbedder) Embed(ctx context.Context, _ embed.Role, texts []string) ([]embed.Vector, error) {
	vectors := make([]embed.Vector, len(texts))
	for i, text := range texts {
		sum := sha256.Sum256([]byte(text))
		v := make(embed.Vector, e.dim)
		for j := range v {
			v[j] = (float32(sum[j%len(sum)]) - 127.5) / 127.5 / float32(math.Sqrt(float64(e.dim)/3))
		}
		vectors[i] = v
	}
	return vectors, ctx.Err()
}

// peakMemory is the most memory that this process has had resident; where the system doesn't say, what the Go runtime has taken.
func peakMemory() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			var kib int64
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
				return kib << 10
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}
