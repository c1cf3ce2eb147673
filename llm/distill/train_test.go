package distill

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/quant"
)

// documents makes token sequences in which a token mostly depends on the one before, so that there is something to learn.
func documents(n, length, vocab int) [][]int32 {
	r := rand.New(rand.NewPCG(3, 4))
	all := make([][]int32, n)
	for i := range all {
		at := r.IntN(vocab)
		for range length {
			if r.IntN(5) == 0 {
				at = r.IntN(vocab)
			} else {
				at = (at*3 + 1) % vocab
			}
			all[i] = append(all[i], int32(at))
		}
	}
	return all
}

// fixture is a tiny teacher with a text.
type fixture struct {
	pool    *kernel.Pool
	file    *gguf.File
	teacher *Teacher
	text    *Text
	options Options
}

func newFixture(t *testing.T, threads int) *fixture {
	t.Helper()
	x := &fixture{pool: kernel.NewPool(threads)}
	t.Cleanup(x.pool.Close)
	var err error
	x.file, err = gguf.Open("../model/testdata/arch/llama.f32.gguf")
	require.NoError(t, err)
	t.Cleanup(func() { x.file.Close() })
	x.teacher, err = OpenTeacher(x.file, x.pool, 16)
	require.NoError(t, err)
	t.Cleanup(x.teacher.Close)
	x.text, err = NewText(documents(24, 60, 50), x.teacher.Vocab(), 40, 16, 0, 1)
	require.NoError(t, err)
	x.options = Options{
		Shape:     Shape{Width: 32, Layers: 2, Heads: 2, FFN: 64, Context: 16},
		Objective: Objective{Temperature: 2, Soft: 0.5},
		Steps:     12, Batch: 4, Rate: 3e-3, WeightDecay: 0.1, Seed: 5, Checkpoint: 4,
	}
	return x
}

func (x *fixture) labels(t *testing.T, path string) *Labels {
	t.Helper()
	l, err := OpenLabels(t.Context(), path, x.text, x.text.Train, x.teacher, x.options.Temperature, nil)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestTrainingIsAFunctionOfItsInputs(t *testing.T) {
	x := newFixture(t, 1)
	dir := t.TempDir()
	want, curve, err := Train(t.Context(), x.pool, x.text, x.labels(t, filepath.Join(dir, "l")), x.options, filepath.Join(dir, "a"), nil)
	require.NoError(t, err)
	require.Len(t, curve, x.options.Steps)

	y := newFixture(t, 3)
	got, again, err := Train(t.Context(), y.pool, y.text, y.labels(t, filepath.Join(dir, "m")), y.options, filepath.Join(dir, "b"), nil)
	require.NoError(t, err)
	require.Equal(t, want.flat, got.flat, "three threads")
	require.Equal(t, curve, again)

	// Interrupted off the beat of the checkpoints.
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(dir, "c")
	_, _, err = Train(ctx, y.pool, y.text, y.labels(t, filepath.Join(dir, "n")), y.options, path, func(c []Point) {
		if len(c) == 6 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	steps := 0
	got, again, err = Train(t.Context(), y.pool, y.text, y.labels(t, filepath.Join(dir, "n")), y.options, path, func([]Point) { steps++ })
	require.NoError(t, err)
	require.Equal(t, x.options.Steps-6, steps, "it goes on where it stopped")
	require.Equal(t, want.flat, got.flat, "resumed")
	require.Equal(t, curve, again)

	other := x.options
	other.Seed++
	got, _, err = Train(t.Context(), x.pool, x.text, x.labels(t, filepath.Join(dir, "l")), other, filepath.Join(dir, "d"), nil)
	require.NoError(t, err)
	require.NotEqual(t, want.flat, got.flat, "another seed")
}

// TestKilled trains in a child process that kills itself between two checkpoints, and in one that is left alone.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("DISTILL_TEST_CHILD"); dir != "" {
		x := newFixture(t, 2)
		_, _, err := Train(t.Context(), x.pool, x.text, x.labels(t, filepath.Join(dir, "labels")), x.options, filepath.Join(dir, "state"), func(c []Point) {
			if len(c) == 7 && os.Getenv("DISTILL_TEST_KILL") != "" {
				self, err := os.FindProcess(os.Getpid())
				require.NoError(t, err)
				require.NoError(t, self.Kill())
				select {}
			}
		})
		require.NoError(t, err)
		return
	}
	child := func(dir string, kill ...string) error {
		c := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		c.Env = append(append(os.Environ(), "DISTILL_TEST_CHILD="+dir), kill...)
		return c.Run()
	}
	killed, whole := t.TempDir(), t.TempDir()
	require.Error(t, child(killed, "DISTILL_TEST_KILL=1"))
	// The kill also tore a label record: its window is made again.
	labels := filepath.Join(killed, "labels")
	info, err := os.Stat(labels)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(labels, info.Size()*2/3))
	require.NoError(t, child(killed))
	require.NoError(t, child(whole))
	for _, name := range []string{"labels", "state"} {
		a, err := os.ReadFile(filepath.Join(killed, name))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(whole, name))
		require.NoError(t, err)
		require.Equal(t, b, a, name)
	}
}

func TestStudentLearns(t *testing.T) {
	x := newFixture(t, 2)
	x.options.Steps, x.options.Checkpoint, x.options.Rate, x.options.Soft = 80, 80, 1e-2, 0.1
	dir := t.TempDir()
	_, curve, err := Train(t.Context(), x.pool, x.text, x.labels(t, filepath.Join(dir, "l")), x.options, filepath.Join(dir, "a"), nil)
	require.NoError(t, err)
	require.Less(t, curve[79].Hard, curve[0].Hard-2)
}

// The engine's own forward pass over the saved file gives the trainer's logits; a token without a row of its own has the shared one.
func TestSavedStudentIsTheTrainedOne(t *testing.T) {
	x := newFixture(t, 2)
	dir := t.TempDir()
	o := x.options
	o.Soft = 0
	m, _, err := Train(t.Context(), x.pool, x.text, nil, o, filepath.Join(dir, "a"), nil)
	require.NoError(t, err)
	path := filepath.Join(dir, "student.gguf")
	require.NoError(t, m.Save(path, "student", x.text, x.file, quant.F32))

	window := x.text.Heldout[0]
	inputs, next := make([]int32, o.Context), make([]int32, o.Context)
	x.text.fill(window, inputs, next)
	a := newPass(m, x.pool, 1)
	defer a.close()
	a.Forward(inputs)

	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	saved, err := OpenTeacher(f, x.pool, o.Context)
	require.NoError(t, err)
	defer saved.Close()
	require.Equal(t, x.teacher.Vocab(), saved.Vocab())
	logits, err := saved.Logits(window)
	require.NoError(t, err)
	for i := range o.Context {
		for id := range saved.Vocab() {
			require.InDelta(t, a.Logits[i*m.Classes+int(x.text.Class(int32(id)))], logits[i*saved.Vocab()+id], 2e-5, "row %d token %d", i, id)
		}
	}
	// A student that is its own teacher agrees with it everywhere, but for what float16 takes from the labels.
	labels, err := OpenLabels(t.Context(), filepath.Join(dir, "own"), x.text, x.text.Heldout, saved, 1, nil)
	require.NoError(t, err)
	defer labels.Close()
	q, err := Measure(x.pool, m, x.text, labels)
	require.NoError(t, err)
	require.InDelta(t, q.Entropy, q.Soft, 1e-3)
	require.Greater(t, q.Greedy, 0.95)
	require.Greater(t, q.Sampled, 0.1) // most tokens share a row here, and count as none
}

func TestLabelsAreTheTeachersDistributions(t *testing.T) {
	x := newFixture(t, 2)
	l := x.labels(t, filepath.Join(t.TempDir(), "l"))
	n, c, vocab := x.text.Context, x.text.Classes(), x.teacher.Vocab()
	p, entropy, best := make([]float32, n*c), make([]float32, n), make([]int32, n)
	for _, w := range []int{0, len(x.text.Train) - 1} {
		require.NoError(t, l.Read(w, p, entropy, best))
		logits, err := x.teacher.Logits(x.text.Train[w])
		require.NoError(t, err)
		for i := range n {
			want := make([]float64, c)
			var sum, h float64
			for id, z := range logits[i*vocab:][:vocab] {
				e := math.Exp(float64(z) / 2)
				want[x.text.Class(int32(id))] += e
				sum += e
			}
			for _, z := range logits[i*vocab:][:vocab] {
				q := math.Exp(float64(z)/2) / sum
				h -= q * math.Log(q)
			}
			for j := range want {
				require.InEpsilon(t, want[j]/sum, p[i*c+j], 2e-3)
			}
			require.InDelta(t, h, entropy[i], 1e-4)
			require.Less(t, best[i], int32(c-1))
		}
	}
}

func TestTextIsSplitByDocument(t *testing.T) {
	docs := documents(30, 50, 64)
	for i := range docs { // a mark of its own in every document
		for j := range docs[i] {
			docs[i][j] += int32(i) * 64
		}
	}
	docs = append(docs, docs[3], docs[4])
	text, err := NewText(docs, 5000, 100, 8, 0, 9)
	require.NoError(t, err)
	require.Equal(t, 2, text.Repeated)
	require.Len(t, text.Known, 100)
	require.Equal(t, 4900, text.Shared)
	in := map[int32]bool{}
	for _, w := range text.Train {
		for _, id := range w {
			in[id/64] = true
		}
	}
	for _, w := range text.Heldout {
		for _, id := range w {
			require.False(t, in[id/64], "document %d is on both sides", id/64)
		}
	}
	fewer, err := NewText(docs, 5000, 100, 8, 20, 9)
	require.NoError(t, err)
	require.Len(t, fewer.Train, 20)

	_, err = NewText(docs[:2], 5000, 100, 64, 0, 9)
	require.ErrorIs(t, err, ErrTooLittle)
	_, err = NewText(nil, 5000, 100, 64, 0, 9)
	require.ErrorIs(t, err, ErrTooLittle)
	one, err := NewText([][]int32{documents(1, 2000, 64)[0]}, 5000, 100, 16, 0, 9)
	require.NoError(t, err)
	require.True(t, one.OneDoc)
}

func TestWrongOptionsAreRefused(t *testing.T) {
	x := newFixture(t, 1)
	for name, change := range map[string]func(*Options){
		"steps":       func(o *Options) { o.Steps = 0 },
		"temperature": func(o *Options) { o.Temperature = 0 },
		"soft":        func(o *Options) { o.Soft = float32(math.NaN()) },
		"rate":        func(o *Options) { o.Rate = -1 },
		"heads":       func(o *Options) { o.Heads = 3 },
		"width":       func(o *Options) { o.Width = 40 },
		"huge":        func(o *Options) { o.Layers = 1 << 20 },
		"labels":      func(o *Options) {},
	} {
		o := x.options
		change(&o)
		_, _, err := Train(t.Context(), x.pool, x.text, nil, o, filepath.Join(t.TempDir(), "c"), nil)
		require.Error(t, err, name)
	}
	o := x.options
	o.Soft = 0
	path := filepath.Join(t.TempDir(), "c")
	require.NoError(t, os.WriteFile(path, []byte("ragdckp1 but not a checkpoint at all, only long enough to look like one ........"), 0o600))
	_, _, err := Train(t.Context(), x.pool, x.text, nil, o, path, nil)
	require.ErrorContains(t, err, "damaged")
	_, _, err = Train(t.Context(), x.pool, x.text, nil, o, filepath.Join(path, "in a file"), nil)
	require.Error(t, err)

	encoder, err := gguf.Open("../model/testdata/arch/bert.f32.gguf")
	require.NoError(t, err)
	defer encoder.Close()
	_, err = OpenTeacher(encoder, x.pool, 16)
	require.ErrorContains(t, err, "encoder")
}
