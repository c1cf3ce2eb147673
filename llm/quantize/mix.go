package quantize

import (
	"fmt"
	"strconv"
	"strings"

	"ragd/llm/gguf"
	"ragd/llm/quant"
)

// Mix is a recipe: which type each matrix of a model gets.
type Mix struct {
	Name     string
	About    string
	base     quant.Type
	fileType int // general.file_type
}

// Mixes lists the recipes, the most exact first. The number after the name is about how many bits a weight takes.
func Mixes() []Mix {
	return []Mix{
		{"F16", "16 bits: half floats, no loss worth naming", quant.F16, 1},
		{"Q8_0", "8.5 bits: no measurable loss; for models below 0.6 billion weights, embedders and rerankers", quant.Q8_0, 7},
		{"Q6_K", "6.6 bits: hardly any loss", quant.Q6_K, 18},
		{"Q5_K_M", "5.7 bits: small loss", quant.Q5_K, 17},
		{"Q4_K_M", "4.9 bits: the usual choice for answer models", quant.Q4_K, 15},
		{"Q4_0", "4.6 bits: the simplest; visibly worse than Q4_K_M at nearly its size", quant.Q4_0, 2},
	}
}

// ParseMix returns the recipe with a name, in any case.
func ParseMix(name string) (Mix, error) {
	var names []string
	for _, m := range Mixes() {
		if strings.EqualFold(m.Name, name) {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mix{}, fmt.Errorf("quantize: the type %q is not offered; choose one of: %s", name, strings.Join(names, ", "))
}

// recipe applies a Mix to one model.
type recipe struct {
	Mix
	layers  int
	tied    bool // the embeddings are the output matrix, too
	weighed bool // with an importance
}

func newRecipe(m Mix, f *gguf.File, weighed bool) recipe {
	layers, _ := f.Uint(f.Architecture() + ".block_count")
	_, untied := f.Tensor("output.weight")
	return recipe{Mix: m, layers: int(layers), tied: !untied, weighed: weighed}
}

// quantizes reports whether t is a matrix that a mix rounds: everything that a product with activations reads. The small
// rest is kept: it decides much and weighs little.
func quantizes(t *gguf.Tensor) bool {
	if len(t.Shape) < 2 || t.Rows() == 1 || t.Cols() == 1 || !strings.HasSuffix(t.Name, ".weight") {
		return false
	}
	for _, kept := range []string{"_norm.weight", "position_embd.", "token_types.", "cls.", "ffn_gate_inp."} {
		if strings.Contains(t.Name, kept) {
			return false
		}
	}
	return true
}

// typeOf returns the wanted type of a matrix and the one that its rows can take.
func (r recipe) typeOf(t *gguf.Tensor) (wanted, possible quant.Type) {
	wanted = r.wanted(t.Name)
	possible = wanted
	if elems, _ := wanted.Block(); t.Cols()%elems != 0 {
		// The reference's choices: about the same bits per weight in blocks of 32.
		possible = map[quant.Type]quant.Type{quant.Q4_K: quant.Q5_0, quant.Q5_K: quant.Q5_1, quant.Q6_K: quant.Q8_0}[wanted]
		if elems, _ := possible.Block(); elems == 1 || t.Cols()%elems != 0 {
			possible = quant.F16
		}
	}
	return wanted, possible
}

// wanted is the type that the mix gives a matrix. A matrix whose errors reach every later layer, or every token, gets more
// bits: the output, and in the middle mixes the values and the down projection of the first and last eighth of the layers
// and of every third between.
func (r recipe) wanted(name string) quant.Type {
	if r.base == quant.F16 || r.base == quant.Q8_0 {
		return r.base
	}
	if name == "output.weight" || name == "token_embd.weight" && r.tied {
		return quant.Q6_K
	}
	layer := layerOf(name)
	medium := r.base == quant.Q4_K || r.base == quant.Q5_K
	switch part := name[strings.LastIndexByte(strings.TrimSuffix(name, ".weight"), '.')+1:]; {
	case medium && part == "attn_qkv.weight":
		return map[quant.Type]quant.Type{quant.Q4_K: quant.Q5_K, quant.Q5_K: quant.Q6_K}[r.base]
	case medium && (part == "attn_v.weight" || part == "ffn_down.weight") && r.moreBits(layer):
		return quant.Q6_K
	case r.base == quant.Q4_0 && part == "ffn_down.weight" && r.weighed && layer < r.layers/8:
		return quant.Q4_1 // the first layers' activations have extreme channels, which an importance makes symmetric rounding miss
	}
	return r.base
}

func (r recipe) moreBits(layer int) bool {
	eighth := r.layers / 8
	return layer < eighth || layer >= 7*r.layers/8 || (layer-eighth)%3 == 2
}

// layerOf is the N of "blk.N.…"; 0 for tensors outside the layers.
func layerOf(name string) int {
	rest, _ := strings.CutPrefix(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n
}
