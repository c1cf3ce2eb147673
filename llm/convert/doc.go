// Package convert turns models in other formats into GGUF files: Hugging Face folders (config.json, safetensors,
// tokenizer.json) of decoders and encoders (ModelTypes lists them), and ONNX exports of BERT encoders and rerankers, float
// or dynamically quantized to 8 bits.
//
// What comes out is what llm/model and llm/tokenizer load: the tensor and key names that llama.cpp's converter uses, plus
// what that converter drops and scores depend on (the pooler and classifier of rerankers, segment embeddings, the case and
// accent rules of WordPiece).
//
// # Invariants
//
//  1. No precision is lost that the source had. Float matrices keep their type; vectors become F32. An 8-bit ONNX matrix
//     is signed and symmetric with one scale per output, which is exactly a Q8_0 row with equal scales: the codes are
//     copied, and only the scale is rounded to a half (a relative 2^-11, the same as storing the products as F16 would
//     cost at twice the size). Where that does not hold - unsigned codes with a zero point, scales below the half range,
//     rows that are no multiple of 32 - the dequantized values are stored as F16 or F32.
//  2. Nothing is guessed or dropped silently: a tensor that no rule maps, a missing one, an unknown model type, tokenizer
//     or option is an error that names it.
//  3. The output appears complete or not at all: it is written beside its place and renamed. Tensors are streamed; memory
//     holds at most one matrix that has to be transposed.
//  4. Every file carries Version under VersionKey, so that a catalogue can tell files of an older converter.
//
// # Concurrency
//
// The functions are independent and safe for concurrent use with different outputs.
//
// # Source
//
// Tensor names and metadata: llama.cpp's convert_hf_to_gguf.py; the tests compare with files that it made. ONNX: the
// onnx.proto schema, read by the small protobuf reader here. Llama's rotary layout: the permutation of that converter.
package convert
