package convert

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// ONNX converts the BERT encoder or reranker in the file path into the GGUF file out. tokenizer.json (or vocab.txt) and
// tokenizer_config.json are read from dir, and so is config.json where it exists; without one o.Heads must be set.
func ONNX(path, dir, out string, o Options) error {
	if err := onnx(path, dir, out, o); err != nil {
		return fmt.Errorf("convert: %s: %w", path, err)
	}
	return nil
}

func onnx(path, dir, out string, o Options) error {
	if o.Name == "" {
		o.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	g, err := parseONNX(f, info.Size())
	if err != nil {
		return err
	}
	w, err := g.weights()
	if err != nil {
		return err
	}
	w.trimPrefix("bert.")
	c, err := onnxConfig(dir, w, o)
	if err != nil {
		return err
	}
	v, err := readTokenizer(dir, c)
	if err != nil {
		return err
	}
	m, err := buildBERT(c, w, v, o)
	if err != nil {
		return err
	}
	return m.write(out, o)
}

// onnxConfig returns config.json, or what the weights say about the missing one.
func onnxConfig(dir string, w *weights, o Options) (*config, error) {
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		return readConfig(dir)
	}
	if o.Heads == 0 {
		return nil, fmt.Errorf("config.json is missing, and the number of attention heads was not given")
	}
	c := &config{ModelType: "bert", Activation: "gelu", Heads: o.Heads, KVHeads: o.Heads}
	rows := func(name string) (n, cols int) {
		if a := w.arrays[name]; a != nil && len(a.shape) == 2 {
			return a.shape[0], a.shape[1]
		}
		return 0, 0
	}
	c.Vocab, c.Embd = rows("embeddings.word_embeddings.weight")
	c.Context, _ = rows("embeddings.position_embeddings.weight")
	c.FFN, _ = rows("encoder.layer.0.intermediate.dense.weight")
	for w.has(fmt.Sprintf("encoder.layer.%d.output.dense.weight", c.Layers)) {
		c.Layers++
	}
	if c.Layers == 0 || c.Embd == 0 {
		return nil, fmt.Errorf("the graph is no BERT encoder that this converter knows: it needs the parameter names of the original " +
			"(encoder.layer.0.output.dense…) and plain or dynamically quantized (MatMulInteger) products; export it without graph optimisation")
	}
	return c, c.check()
}

// graph is the part of an ONNX model that holds weights.
type graph struct {
	initializers map[string]*array
	integers     map[string][]int32 // small integer initializers: zero points
	floats       map[string][]float32
	nodes        []node
}

type node struct {
	op              string
	inputs, outputs []string
	transB          bool
}

// Bounds of what is held in memory while parsing.
const (
	maxName     = 1 << 12
	maxNode     = 1 << 16
	maxInline   = 1 << 24 // bytes of packed values outside raw_data
	maxDims     = 8
	maxElements = 1 << 33
)

// parseONNX reads a ModelProto: the graph's initializers and nodes.
func parseONNX(r io.ReaderAt, size int64) (*graph, error) {
	g := &graph{initializers: map[string]*array{}, integers: map[string][]int32{}, floats: map[string][]float32{}}
	top := message{r: r, end: size}
	found := false
	for f, ok := top.next(); ok; f, ok = top.next() {
		if f.number == 7 && f.wire == bytesWire {
			found = true
			if err := g.parse(f.sub); err != nil {
				return nil, err
			}
		}
	}
	if top.err != nil {
		return nil, top.err
	}
	if !found {
		return nil, fmt.Errorf("%w: there is no graph in it", errProtobuf)
	}
	return g, nil
}

func (g *graph) parse(m message) error {
	for f, ok := m.next(); ok; f, ok = m.next() {
		var err error
		switch {
		case f.number == 1 && f.wire == bytesWire:
			err = g.node(f.sub)
		case f.number == 5 && f.wire == bytesWire:
			err = g.initializer(f.sub)
		}
		if err != nil {
			return err
		}
	}
	return m.err
}

func (g *graph) node(m message) error {
	var n node
	for f, ok := m.next(); ok; f, ok = m.next() {
		if f.wire != bytesWire {
			continue
		}
		switch f.number {
		case 1, 2, 4:
			name := string(f.sub.bytes(maxName))
			switch f.number {
			case 1:
				n.inputs = append(n.inputs, name)
			case 2:
				n.outputs = append(n.outputs, name)
			case 4:
				n.op = name
			}
			m.err = f.sub.err
		case 5:
			a := f.sub
			name, value := "", uint64(0)
			for x, ok := a.next(); ok; x, ok = a.next() {
				switch {
				case x.number == 1 && x.wire == bytesWire:
					name = string(x.sub.bytes(maxName))
					a.err = x.sub.err
				case x.number == 3 && x.wire == varintWire:
					value = x.value
				}
			}
			m.err = a.err
			n.transB = n.transB || name == "transB" && value == 1
		}
	}
	if len(n.inputs)+len(n.outputs) > maxNode {
		return fmt.Errorf("%w: a node with %d inputs", errProtobuf, len(n.inputs))
	}
	g.nodes = append(g.nodes, n)
	return m.err
}

// Element types of TensorProto.
var onnxTypes = map[uint64]dtype{1: float32s, 2: uint8s, 3: int8s, 10: float16s, 16: bfloat16s}

// initializer reads one TensorProto.
func (g *graph) initializer(m message) error {
	a := &array{r: m.r, typ: otherType}
	var have int64
	var ints []int32
	var floats []float32
	for f, ok := m.next(); ok; f, ok = m.next() {
		switch {
		case f.number == 1 && f.wire == varintWire:
			a.shape = append(a.shape, int(f.value))
		case f.number == 1 && f.wire == bytesWire: // packed
			for f.sub.at < f.sub.end && f.sub.err == nil && len(a.shape) <= maxDims {
				a.shape = append(a.shape, int(f.sub.varint()))
			}
			m.err = f.sub.err
		case f.number == 2 && f.wire == varintWire:
			if t, ok := onnxTypes[f.value]; ok {
				a.typ = t
			}
		case f.number == 4 && f.wire == bytesWire: // packed float_data
			b := f.sub.bytes(maxInline)
			for i := 0; i+4 <= len(b); i += 4 {
				floats = append(floats, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
			}
			a.inline, have, m.err = b, int64(len(b)), f.sub.err
		case f.number == 5 && f.wire == bytesWire: // packed int32_data: zero points
			for f.sub.at < f.sub.end && f.sub.err == nil && len(ints) < maxInline {
				ints = append(ints, int32(f.sub.varint()))
			}
			m.err = f.sub.err
		case f.number == 8 && f.wire == bytesWire:
			a.name = string(f.sub.bytes(maxName))
			m.err = f.sub.err
		case f.number == 9 && f.wire == bytesWire:
			a.offset, have = f.sub.at, f.sub.end-f.sub.at
		case f.number == 14 && f.value == 1:
			return fmt.Errorf("the weights lie in another file (external data), which is not supported; save the model as one file")
		}
	}
	if m.err != nil {
		return m.err
	}
	if err := g.keep(a, have, ints, floats); err != nil {
		return fmt.Errorf("initializer %q: %w", a.name, err)
	}
	return nil
}

// keep checks the size of an initializer and files it. Scalars are kept with their values.
func (g *graph) keep(a *array, have int64, ints []int32, floats []float32) error {
	elems := int64(1)
	for _, d := range a.shape {
		if d < 0 || d > 0 && elems > maxElements/int64(d) {
			return fmt.Errorf("the shape %v is impossible", a.shape)
		}
		elems *= int64(d)
	}
	if len(a.shape) > maxDims {
		return fmt.Errorf("%d dimensions are too many", len(a.shape))
	}
	if ints != nil {
		g.integers[a.name] = ints
		return nil
	}
	if a.typ == otherType {
		return nil
	}
	if elems*a.typ.size() != have {
		return fmt.Errorf("shape %v needs %d bytes, but there are %d", a.shape, elems*a.typ.size(), have)
	}
	if floats != nil {
		g.floats[a.name] = floats
	}
	g.initializers[a.name] = a
	return nil
}

// weights names the parameters as the original model did. Exporters keep the names of biases, norms and embeddings but
// rename transposed product weights; those are found through the bias that is added to the product.
func (g *graph) weights() (*weights, error) {
	w := &weights{arrays: map[string]*array{}}
	consumers := map[string][]node{}
	for _, n := range g.nodes {
		for _, in := range n.inputs {
			consumers[in] = append(consumers[in], n)
		}
	}
	used := map[string]bool{}
	for _, n := range g.nodes {
		if len(n.inputs) < 2 || len(n.outputs) < 1 {
			continue
		}
		switch n.op {
		case "MatMul", "MatMulInteger", "Gemm":
		default:
			continue
		}
		a := g.initializers[n.inputs[1]]
		if a == nil || len(a.shape) != 2 {
			continue // a product of two activations, or something else
		}
		bias := g.biasOf(n, consumers)
		name, ok := strings.CutSuffix(bias, ".bias")
		if !ok {
			continue // whoever needs the weight reports it as missing
		}
		b, err := g.quantized(a)
		if err != nil {
			return nil, err
		}
		if !(n.op == "Gemm" && n.transB) {
			b.transposed = true
			b.shape = []int{a.shape[1], a.shape[0]}
		}
		b.name = name + ".weight"
		w.arrays[b.name] = b
		used[a.name] = true
	}
	for name, a := range g.initializers {
		if used[name] || !isParameter(name) {
			continue
		}
		b, err := g.quantized(a)
		if err != nil {
			return nil, err
		}
		b.name = strings.TrimSuffix(name, "_quantized")
		w.arrays[b.name] = b
	}
	return w, nil
}

// isParameter reports whether an initializer carries the name of a model parameter, as opposed to a constant of the
// exporter or the scale of a quantized one.
func isParameter(name string) bool {
	name = strings.TrimSuffix(name, "_quantized")
	return (strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, ".bias")) && !strings.HasPrefix(name, "onnx::")
}

// biasOf follows the product of n to the addition of its bias: directly, or through the cast and the scaling that follow
// an integer product.
func (g *graph) biasOf(n node, consumers map[string][]node) string {
	if n.op == "Gemm" {
		if len(n.inputs) > 2 {
			return n.inputs[2]
		}
		return ""
	}
	out := n.outputs[0]
	const steps = 4 // cast, scale, add, and one to spare
	for range steps {
		next := consumers[out]
		if len(next) != 1 || len(next[0].outputs) < 1 {
			return ""
		}
		switch next[0].op {
		case "Cast", "Mul":
			out = next[0].outputs[0]
		case "Add":
			for _, in := range next[0].inputs {
				if a := g.initializers[in]; a != nil && len(a.shape) == 1 {
					return in
				}
			}
			return ""
		default:
			return ""
		}
	}
	return ""
}

// quantized returns a copy of a with the scale and zero point that its name implies, if it holds 8-bit codes.
func (g *graph) quantized(a *array) (*array, error) {
	b := *a
	if a.typ != uint8s && a.typ != int8s {
		return &b, nil
	}
	base, ok := strings.CutSuffix(a.name, "_quantized")
	if !ok {
		return nil, fmt.Errorf("the 8-bit array %q has no name that tells its scale (NAME_quantized, NAME_scale, NAME_zero_point)", a.name)
	}
	var err error
	if b.scale, err = g.scales(base + "_scale"); err != nil {
		return nil, err
	}
	if b.zero, err = g.zeroPoints(base + "_zero_point"); err != nil {
		return nil, err
	}
	outputs := 1
	if len(a.shape) == 2 {
		outputs = a.shape[1] // products hold [in][out]; the other 8-bit arrays have one scale
	}
	if n := len(b.scale); n != 1 && n != outputs {
		return nil, fmt.Errorf("%q has %d scales for %d outputs", a.name, n, outputs)
	}
	if n := len(b.zero); n != 1 && n != outputs {
		return nil, fmt.Errorf("%q has %d zero points for %d outputs", a.name, n, outputs)
	}
	return &b, nil
}

func (g *graph) scales(name string) ([]float32, error) {
	if x := g.floats[name]; len(x) > 0 {
		return x, nil
	}
	a := g.initializers[name]
	if a == nil || a.typ != float32s || a.elems() == 0 || a.elems() > maxInline {
		return nil, fmt.Errorf("the scale %q is missing", name)
	}
	return a.floats()
}

func (g *graph) zeroPoints(name string) ([]int32, error) {
	if x := g.integers[name]; len(x) > 0 {
		return x, nil
	}
	a := g.initializers[name]
	if a == nil || a.typ != int8s && a.typ != uint8s || a.elems() == 0 || a.elems() > maxInline {
		return nil, fmt.Errorf("the zero point %q is missing", name)
	}
	codes, err := a.codes()
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(codes))
	for i, c := range codes {
		out[i] = int32(c)
	}
	return out, nil
}
