// Package inspect says what a model file is and what it costs on a machine, without loading it: shapes, types, tokenizer and
// chat template; the memory of keys and values; the speed limit that memory bandwidth sets; what attention costs as the
// context grows. cost.go holds the arithmetic, one small function per rule of thumb.
//
// # Invariants
//
//  1. Nothing is loaded: only metadata is read, so a file larger than memory can be inspected.
//  2. The figures follow from the file and the measured bandwidth alone. Memory is what the engine itself plans (model.Plan).
//  3. A file that the engine cannot run is described as far as it goes, and Unsupported says by name what stands in the way.
//
// # Concurrency
//
// The functions are pure.
//
// # Source
//
// Roofline reasoning: Williams et al., 2009. Sizes of keys and values: Pope et al., "Efficiently Scaling Transformer
// Inference", 2022; grouped-query attention: Ainslie et al., 2023.
package inspect
