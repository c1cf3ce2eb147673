// Package quantize makes a GGUF file smaller: it rounds the matrices of a model to block formats of fewer bits, tensor by
// tensor as the published mixes do, and measures what the rounding costs.
//
// Three steps, each usable alone: [MeasureImportance] runs a text through the model and learns which input channels of each
// matrix matter; [File] writes the smaller file and reports the error of every tensor; [Compare] runs both files over a text
// and reports perplexity, the divergence of the next-token distributions and how often the most probable token stays.
//
// # Invariants
//
//  1. The output is complete or absent, and holds the metadata of the source byte for byte, except the file type.
//  2. A matrix that cannot take the wanted type (rows that are no multiple of its block) takes the nearest larger one that
//     it can; the report names both. Vectors, positions, segments and classifier heads stay as they are.
//  3. Weights that are rounded already are rounded again only when asked for: the errors add up.
//  4. The result depends on the source, the mix and the importance alone, not on the number of threads.
//  5. Compare runs the reference with float weights and float activations and the candidate as the engine serves it.
//
// # Concurrency
//
// The functions are independent; each uses the threads it is given.
//
// # Source
//
// The mixes are those of llama.cpp's quantize tool (Q4_K_M, Q5_K_M: six bits for the output matrix, and for half of the
// value and down projections); the rounding searches are in llm/quant. The quality figures are those of its perplexity
// tool with --kl-divergence: windows of the text, scored in their second half.
package quantize
