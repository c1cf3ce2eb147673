package distill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"ragd/llm/kernel"
)

// Options of a causal training run.
type Options struct {
	Shape
	Objective
	Steps       int
	Batch       int     // windows per step
	Rate        float64 // highest learning rate: reached after a warm-up, left along a cosine
	WeightDecay float64
	Seed        uint64
	Checkpoint  int // steps between checkpoints
}

// maxStepTokens bounds the tokens of a step: the activations of all of them are in memory.
const maxStepTokens = 1 << 16

// Check refuses options that cannot work. Train does, too; ask before the teacher reads for minutes.
func (o *Options) Check() error {
	switch {
	case o.Steps <= 0 || o.Batch <= 0 || o.Checkpoint <= 0:
		return fmt.Errorf("distill: steps, batch and checkpoint interval must be positive")
	case !positive(float64(o.Temperature)) || !(o.Soft >= 0 && o.Soft <= 1):
		return fmt.Errorf("distill: the temperature is %g and must be positive; the teacher's share is %g and must lie between 0 and 1", o.Temperature, o.Soft)
	case !positive(o.Rate) || !(o.WeightDecay >= 0):
		return fmt.Errorf("distill: the learning rate is %g and must be positive, weight decay is %g and must not be negative", o.Rate, o.WeightDecay)
	}
	if err := o.Shape.check(); err != nil {
		return err
	}
	if o.Batch > maxStepTokens/o.Context {
		return fmt.Errorf("distill: %d windows of %d tokens are too many for a step; at most %d fit", o.Batch, o.Context, maxStepTokens/o.Context)
	}
	return nil
}

// positive reports whether x is a number above 0.
func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

// rate is the learning rate of a step: linear up over a twentieth of the run, then along half a cosine to a tenth.
func (o *Options) rate(step int) float64 {
	warm := max(o.Steps/20, 1)
	if step < warm {
		return o.Rate * float64(step+1) / float64(warm)
	}
	x := float64(step-warm) / float64(max(o.Steps-warm, 1))
	return o.Rate * (0.1 + 0.9*(1+math.Cos(math.Pi*x))/2)
}

// Point is the mean cross-entropy of one step, in nats per token: to the teacher at the objective's temperature, and to the text.
type Point struct{ Soft, Hard float32 }

// gradientClip is the norm to which longer gradients are shortened.
const gradientClip = 1

// Train trains a student on t. labels are those of t.Train at the objective's temperature; nil when Soft is 0. Every o.Checkpoint steps the whole state
// goes to the file at checkpoint; a file of the same run, which the caller vouches for by its name, is taken up, and the result is the same as that of
// a run without a break. progress may be nil; it gets the curve so far.
func Train(ctx context.Context, p *kernel.Pool, t *Text, labels *Labels, o Options, checkpoint string, progress func(curve []Point)) (*Student, []Point, error) {
	if err := o.Check(); err != nil {
		return nil, nil, err
	}
	if labels == nil && o.Soft != 0 {
		return nil, nil, errors.New("distill: the objective needs the teacher's labels")
	}
	r := &run{Options: o, text: t, labels: labels, student: newStudent(o.Shape, t.Classes())}
	r.student.init(o.Seed)
	r.adam = newAdam(r.student.Params())
	if err := r.load(checkpoint); err != nil {
		return nil, nil, err
	}
	r.pass = newPass(r.student, p, o.Batch)
	defer r.pass.close()
	r.allocate()
	for r.adam.step < o.Steps {
		if ctx.Err() != nil {
			return nil, nil, errors.Join(context.Cause(ctx), r.save(checkpoint))
		}
		if err := r.step(p); err != nil {
			return nil, nil, err
		}
		if progress != nil {
			progress(r.curve)
		}
		if r.adam.step%o.Checkpoint == 0 || r.adam.step == o.Steps {
			if err := r.save(checkpoint); err != nil {
				return nil, nil, err
			}
		}
	}
	return r.student, r.curve, nil
}

// run is a training run in memory.
type run struct {
	Options
	text    *Text
	labels  *Labels
	student *Student
	adam    *adam
	curve   []Point

	pass         *pass
	gradient     *Student
	decayed      []bool
	inputs, next []int32     // [N]
	p, dz        []float32   // [N][Classes]
	tmp          [][]float32 // [threads][Classes]
	losses       [][2]float64
}

func (r *run) allocate() {
	n, c := r.Batch*r.Context, r.text.Classes()
	r.gradient, r.decayed = newStudent(r.Shape, c), r.student.decayed()
	r.inputs, r.next = make([]int32, n), make([]int32, n)
	r.p, r.dz = make([]float32, n*c), make([]float32, n*c)
	r.losses = make([][2]float64, n)
	r.tmp = make([][]float32, r.pass.pool.Threads())
	for i := range r.tmp {
		r.tmp[i] = make([]float32, c)
	}
}

// window returns the window that comes i-th in the run: each pass over the text takes them in an order of its own.
func (r *run) window(i int) int {
	n := len(r.text.Train)
	return rand.New(rand.NewPCG(r.Seed, uint64(i/n))).Perm(n)[i%n]
}

func (r *run) step(p *kernel.Pool) error {
	t, c := r.Context, r.text.Classes()
	for b := range r.Batch {
		w := r.window(r.adam.step*r.Batch + b)
		r.text.fill(r.text.Train[w], r.inputs[b*t:], r.next[b*t:])
		if r.labels != nil {
			if err := r.labels.Read(w, r.p[b*t*c:][:t*c], nil, nil); err != nil {
				return err
			}
		}
	}
	r.pass.Forward(r.inputs)
	n := len(r.inputs)
	p.Run(n, func(i, worker int) {
		var teacher []float32
		if r.labels != nil {
			teacher = r.p[i*c:][:c]
		}
		r.losses[i][0], r.losses[i][1] = r.row(r.pass.Logits[i*c:][:c], teacher, r.next[i], r.text.Shared, 1/float32(n), r.dz[i*c:][:c], r.tmp[worker])
	})
	var point [2]float64
	for _, l := range r.losses {
		point[0], point[1] = point[0]+l[0]/float64(n), point[1]+l[1]/float64(n)
	}
	clear(r.gradient.flat)
	r.pass.Backward(r.dz, r.gradient)
	norm := r.adam.update(p, r.student.flat, r.gradient.flat, r.rate(r.adam.step), r.WeightDecay, gradientClip, r.decayed)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return fmt.Errorf("distill: training diverged at step %d: choose a lower learning rate than %g", r.adam.step, r.Rate)
	}
	r.curve = append(r.curve, Point{float32(point[0]), float32(point[1])})
	return nil
}

var checkpointMagic = [8]byte{'r', 'a', 'g', 'd', 'c', 'k', 'p', '1'}

// state is what a checkpoint holds after its magic: counts, then weights, both averages of Adam and the curve; then the SHA-256 of all of it.
func (r *run) state() []any {
	return []any{r.student.flat, r.adam.mean, r.adam.power, r.curve}
}

func (r *run) save(path string) error {
	var b bytes.Buffer
	b.Write(checkpointMagic[:])
	for _, v := range append([]any{uint64(r.adam.step), uint64(r.student.Params())}, r.state()...) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			return fmt.Errorf("distill: checkpoint: %w", err)
		}
	}
	sum := sha256.Sum256(b.Bytes())
	b.Write(sum[:])
	if err := WriteFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("distill: checkpoint: %w", err)
	}
	return nil
}

// load takes up the checkpoint at path; without one, the run begins at its beginning.
func (r *run) load(path string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("distill: checkpoint: %w", err)
	}
	damaged := fmt.Errorf("distill: the checkpoint %s is damaged: remove it to begin again", path)
	body := len(raw) - sha256.Size
	if body < len(checkpointMagic)+16 || !bytes.Equal(raw[:8], checkpointMagic[:]) {
		return damaged
	}
	if sum := sha256.Sum256(raw[:body]); !bytes.Equal(sum[:], raw[body:]) {
		return damaged
	}
	steps, params := binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint64(raw[16:])
	if params != uint64(r.student.Params()) || steps > uint64(r.Steps) {
		return fmt.Errorf("distill: the checkpoint %s is of another run: %d weights at step %d; this run has %d weights and %d steps", path, params, steps, r.student.Params(), r.Steps)
	}
	r.adam.step, r.curve = int(steps), make([]Point, steps)
	in := bytes.NewReader(raw[24:body])
	for _, v := range r.state() {
		if err := binary.Read(in, binary.LittleEndian, v); err != nil {
			return damaged
		}
	}
	return nil
}

// WriteFile writes a file that appears complete or not at all, and is on disk when it returns. Nothing is left behind when the disk is full.
func WriteFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err := io.Copy(f, bytes.NewReader(data)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
