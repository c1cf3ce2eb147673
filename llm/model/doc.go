// Package model turns a GGUF file into weights and runs them: one forward pass
// for causal decoders (forward.go) and one for bidirectional encoders
// (encoder.go). An architecture is data, not code: arch_*.go translates its
// metadata into a Config, and the forward pass reads nothing but the Config.
//
// # Invariants
//
//  1. Loading is explicit. Every tensor a Config asks for is looked up by name
//     and checked against its expected shape, and a tensor that nothing asked
//     for is refused too: a bias that was silently ignored would give fluent
//     wrong answers.
//  2. The logits of a token depend only on the tokens before it in its sequence,
//     never on how a prompt was cut into batches, on the other sequences in the
//     batch, or on the number of threads (bit for bit on one ISA).
//  3. Forward allocates no buffers once a batch of the same shape has been seen.
//  4. The page table is the caller's: a Model never decides which page holds
//     what, it writes the pages it is given and reads them back.
//
// # Concurrency
//
// A Model belongs to one goroutine at a time (the scheduler). An Encoder may be
// shared: calls are served one after another. Both use the threads of the Pool
// they were loaded with.
//
// # Source
//
// The tensor names and metadata keys are those of the GGUF specification and of
// llama.cpp's architecture tables; the equations follow the models' reference
// implementations in Hugging Face transformers (llama, mistral, qwen2, qwen3,
// gemma2, gemma3, phi3, granite, smollm3, bert, nomic-bert, modernbert). Rotary scaling:
// "YaRN", Peng et al. 2023, section 3; "LongRoPE", Ding et al. 2024.
package model
