package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

// BenchmarkSearch fills a corpus with RAGD_BENCH_PASSAGES (default 2,000) synthetic passages of 100 words, Zipf-distributed over a vocabulary of
// 300,000, and vectors in clusters, and asks both legs. The time to publish is reported per passage.
func BenchmarkSearch(b *testing.B) {
	passages := 2000
	if n, err := strconv.Atoi(os.Getenv("RAGD_BENCH_PASSAGES")); err == nil {
		passages = n
	}
	ctx := context.Background()
	s := open(b)
	r := rand.New(rand.NewPCG(1, 2))
	begun, publishing := time.Now(), time.Duration(0)
	const perDocument = 50
	for d := range passages / perDocument {
		publishing += load(b, s, r, fmt.Sprintf("doc%d", d), perDocument)
	}
	perPassage := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(passages) }
	b.Logf("%d passages: %.0f µs a passage to store, of which %.0f to publish", passages, perPassage(time.Since(begun)), perPassage(publishing))
	begun = time.Now()
	require.NoError(b, s.Maintain(ctx, store.Retention{}))
	b.Logf("maintain: %v", time.Since(begun))
	_, err := s.Pool().Exec(ctx, `VACUUM ANALYZE`)
	require.NoError(b, err)
	b.Logf("bytes a passage: passages %d, vectors %d, postings %d", size(b, s, "passages")/int64(passages), size(b, s, "passage_vectors")/int64(passages), size(b, s, "postings")/int64(passages))
	for name, f := range map[string]retrieve.Filter{"all": {}, "path": {PathPrefix: "doc1"}} {
		b.Run("dense/"+name, func(b *testing.B) {
			for b.Loop() {
				_, err := s.Dense(ctx, clustered(r), 100, f)
				require.NoError(b, err)
			}
		})
		b.Run("lexical/"+name, func(b *testing.B) {
			for b.Loop() {
				_, err := s.Lexical(ctx, sentence(r, 7), 100, f)
				require.NoError(b, err)
			}
		})
	}
}

func size(b *testing.B, s *store.Store, table string) int64 {
	return count(b, s, `SELECT pg_total_relation_size($1::text::regclass)`, table)
}

const benchDim = 384

var benchIndex = ingest.Index{Model: "bench", Dim: benchDim, Splitter: "bench"}

func load(b *testing.B, s *store.Store, r *rand.Rand, path string, n int) time.Duration {
	ctx := context.Background()
	c := candidate("", "bench", path, path, nil, time.Time{})
	c.Index = benchIndex
	_, _, err := s.Receive(ctx, c, strings.NewReader(path))
	require.NoError(b, err)
	job, err := s.Claim(ctx, "", "bench", benchIndex, time.Hour)
	require.NoError(b, err)
	var ps []ingest.Passage
	var seqs []int
	var vs []embed.Vector
	for i := range n {
		text := sentence(r, 100)
		ps = append(ps, ingest.Passage{Text: text, End: len(text), Language: "en"})
		seqs, vs = append(seqs, i), append(vs, clustered(r))
	}
	require.NoError(b, s.SaveDocument(ctx, job, &ingest.Document{}))
	require.NoError(b, s.SavePassages(ctx, job, ps))
	require.NoError(b, s.SaveVectors(ctx, job, seqs, vs))
	begun := time.Now()
	require.NoError(b, s.Publish(ctx, job))
	return time.Since(begun)
}

func sentence(r *rand.Rand, words int) string {
	var b strings.Builder
	for range words {
		n := int(math.Exp(r.Float64() * math.Log(300_000)))
		for ; n > 0; n /= 26 {
			b.WriteByte(byte('a' + n%26))
		}
		b.WriteString("x ")
	}
	return b.String()
}

// clustered is a vector near one of 1,000 centres: vectors without structure would make every index look bad.
func clustered(r *rand.Rand) embed.Vector {
	centre := rand.New(rand.NewPCG(r.Uint64N(1000), 3))
	v := make(embed.Vector, benchDim)
	norm := 0.0
	for i := range v {
		x := centre.NormFloat64() + 0.5*r.NormFloat64()
		v[i] = float32(x)
		norm += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(norm))
	}
	return v
}
