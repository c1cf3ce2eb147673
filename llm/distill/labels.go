package distill

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/quant"
)

// Teacher is a causal model whose distributions a student learns.
type Teacher struct {
	model *model.Model
	pool  *kernel.Pool
	batch model.Batch
}

// OpenTeacher loads the GGUF file f for windows of context tokens. It fails for anything but a causal model.
func OpenTeacher(f *gguf.File, p *kernel.Pool, context int) (*Teacher, error) {
	pages := (context + kernel.PageTokens - 1) / kernel.PageTokens
	m, err := model.Load(f, p, model.Options{ContextTokens: context, KVPages: pages, KV: kernel.KVF32})
	if err != nil {
		return nil, fmt.Errorf("distill: teacher: %w", err)
	}
	if m.Config().Labels != nil {
		m.Close()
		return nil, errors.New("distill: teacher: the model is a reranker and predicts no tokens; choose a text generator")
	}
	t := &Teacher{model: m, pool: p}
	seq := model.Seq{N: context}
	for i := range pages {
		seq.Pages = append(seq.Pages, int32(i))
	}
	t.batch.Seqs = []model.Seq{seq}
	for i := range context {
		t.batch.Out = append(t.batch.Out, i)
	}
	return t, nil
}

// Vocab is the number of tokens that the teacher's distributions are over.
func (t *Teacher) Vocab() int { return t.model.Vocab() }

// Close frees the model.
func (t *Teacher) Close() { t.model.Close() }

// Logits returns the logits after every token of the window but its last, [T][V]; they are valid until the next call.
func (t *Teacher) Logits(window []int32) ([]float32, error) {
	t.batch.Tokens = window[:len(t.batch.Out)]
	if err := t.model.Forward(&t.batch); err != nil {
		return nil, fmt.Errorf("distill: teacher: %w", err)
	}
	return t.batch.Logits, nil
}

// Labels are a teacher's distributions over the classes of a text, kept in a file because every token is visited many times and the teacher is the
// expensive part. A record is, little endian: probability·1024 per class as float16 [Classes], the entropy over the whole vocabulary (float32, nats)
// and the class of the most probable token (int32, -1 when that token shares the last row).
type Labels struct {
	file    *os.File
	classes int
	context int
	raw     []byte
}

// Probabilities are scaled so that float16 keeps three digits of those down to 6e-8.
const labelScale = 1024

func recordBytes(classes int) int { return 2*classes + 8 }

// OpenLabels makes the labels of windows at a temperature, in the file at path. What the file holds already is kept, whole windows only: a killed run
// goes on. The caller names the file after everything that determines its content. progress may be nil.
func OpenLabels(ctx context.Context, path string, t *Text, windows [][]int32, teacher *Teacher, temperature float32, progress func(done, total int)) (*Labels, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("distill: labels: %w", err)
	}
	l := &Labels{file: file, classes: t.Classes(), context: t.Context}
	if err := l.complete(ctx, t, windows, teacher, temperature, progress); err != nil {
		file.Close()
		return nil, fmt.Errorf("distill: labels %s: %w", filepath.Base(path), err)
	}
	return l, nil
}

func (l *Labels) complete(ctx context.Context, t *Text, windows [][]int32, teacher *Teacher, temperature float32, progress func(done, total int)) error {
	per := int64(l.context * recordBytes(l.classes))
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	done := int(min(info.Size()/per, int64(len(windows))))
	if err := l.file.Truncate(int64(done) * per); err != nil {
		return err
	}
	if _, err := l.file.Seek(int64(done)*per, io.SeekStart); err != nil {
		return err
	}
	l.raw = make([]byte, per)
	for i := done; i < len(windows); i++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		logits, err := teacher.Logits(windows[i])
		if err != nil {
			return err
		}
		vocab := teacher.Vocab()
		var bad atomic.Bool
		teacher.pool.Run(l.context, func(row, _ int) {
			if !t.record(l.raw[row*recordBytes(l.classes):][:recordBytes(l.classes)], logits[row*vocab:][:vocab], temperature) {
				bad.Store(true)
			}
		})
		if bad.Load() {
			return errors.New("the teacher's logits are not numbers: choose another model")
		}
		if _, err := l.file.Write(l.raw); err != nil {
			return err
		}
		if progress != nil {
			progress(i+1, len(windows))
		}
	}
	return l.file.Sync()
}

// record encodes one distribution; z is changed. It reports false when z holds no distribution.
func (t *Text) record(dst []byte, z []float32, temperature float32) bool {
	best := kernel.ArgMax(z)
	if temperature != 1 {
		kernel.Scale(z, 1/temperature)
	}
	kernel.Softmax(z)
	var entropy, shared float64
	for _, p := range z {
		if p > 0 {
			entropy -= float64(p) * math.Log(float64(p))
		}
		shared += float64(p)
	}
	if math.IsNaN(shared) {
		return false
	}
	for i, id := range t.Known {
		shared -= float64(z[id])
		binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToF16(z[id]*labelScale))
	}
	n := len(t.Known)
	binary.LittleEndian.PutUint16(dst[2*n:], quant.F32ToF16(float32(max(shared, 0))*labelScale))
	class := t.Class(int32(best))
	if int(class) == n {
		class = -1
	}
	binary.LittleEndian.PutUint32(dst[2*n+2:], math.Float32bits(float32(entropy)))
	binary.LittleEndian.PutUint32(dst[2*n+6:], uint32(class))
	return true
}

// Read fills p [T][Classes] with the distributions of a window, each summing to 1, and entropy and best [T] where they are not nil.
func (l *Labels) Read(window int, p, entropy []float32, best []int32) error {
	size := recordBytes(l.classes)
	raw := l.raw[:l.context*size]
	if _, err := l.file.ReadAt(raw, int64(window)*int64(len(raw))); err != nil {
		return fmt.Errorf("distill: read labels: %w", err)
	}
	for t := range l.context {
		record, row := raw[t*size:][:size], p[t*l.classes:][:l.classes]
		if err := quant.Decode(quant.F16, row, record[:2*l.classes]); err != nil {
			return fmt.Errorf("distill: read labels: %w", err)
		}
		var sum float64
		for _, v := range row {
			sum += float64(v)
		}
		kernel.Scale(row, float32(1/sum))
		if entropy != nil {
			entropy[t] = math.Float32frombits(binary.LittleEndian.Uint32(record[2*l.classes:]))
			best[t] = int32(binary.LittleEndian.Uint32(record[2*l.classes+4:]))
		}
	}
	return nil
}

// Close closes the file.
func (l *Labels) Close() error { return l.file.Close() }
