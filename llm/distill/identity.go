package distill

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
)

// Identity names what a teacher says about a text: equal names mean equal labels. It covers the teacher's weights, the kernels, the windows and the
// known tokens.
func Identity(f *gguf.File, t *Text) string {
	h := sha256.New()
	fmt.Fprintln(h, f.Architecture(), f.Size(), kernel.Active(), t.Context, len(t.Known), t.Shared)
	for _, x := range f.Tensors() {
		fmt.Fprintln(h, x.Name, x.Type, x.Shape)
		h.Write(x.Data[:min(len(x.Data), 256)]) // a changed model changes everywhere
	}
	for _, ids := range append(append([][]int32{t.Known}, t.Train...), t.Heldout...) {
		raw := make([]byte, 0, 4*len(ids)+4)
		for _, id := range append(ids[:len(ids):len(ids)], -1) {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(id))
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
