// Package quant holds the block formats in which GGUF files store weights: their layout, the exact decoding, and a plain
// reference encoder. It knows rows of numbers, no tensors and no models.
//
// A format packs a row of float32 into blocks of 1, 32 or 256 elements. Every block has the same number of bytes, so a
// row of n elements always takes n/elems*nbytes bytes and rows can be addressed directly.
//
// # Invariants
//
//  1. Decode is a pure function of the bytes, in float32 arithmetic, in the order of operations of the format's
//     reference implementation; it gives the same bits on every machine (no fused multiply-add).
//  2. Decode never fails on content: every bit pattern of a block is a valid block. Only lengths are checked.
//  3. Encode refuses NaN, infinity and magnitudes above 65504 for block formats: one such value would poison its block.
//  4. Decode(Encode(x)) changes no element by more than the format's step; encoding zeros decodes to zeros.
//
// # Concurrency
//
// All functions are pure and safe for concurrent use.
//
// # Source
//
// The GGML block structures (block_q4_0 … block_iq4_xs) and their reference quantizers. The tests compare with bytes
// and numbers made by the independent NumPy implementation in the PyPI package gguf and by libggml itself.
package quant
