// Package tokenizer turns text into the token ids a model was trained on, and ids back into text.
//
// One [Tokenizer] covers the four families found in GGUF files: byte-level BPE (GPT-2, Llama 3, Qwen, …),
// SentencePiece (Llama 2, Gemma), WordPiece (BERT) and Unigram (T5, XLM-RoBERTa). Encoding runs in three steps:
// special tokens are cut out first (special.go), the text between them is normalised and split the way the
// family does it (scan.go, normalize.go), and each piece is resolved against the vocabulary (bpe.go, spm.go,
// wordpiece.go, unigram.go).
//
// # Invariants
//
//  1. A control token is produced only from a [Span] with ParseSpecial set, from addSpecial, or by EncodePair.
//     No other text, whatever it contains, yields one: vocabularies are searched through tables from which control,
//     unknown, byte and unused tokens were left out.
//  2. Adjacent spans are tokenized as one text: without special tokens in it, cutting a text into spans changes
//     no id.
//  3. Time is O(n log n) in the length of the text, for every text; memory is O(n).
//  4. Byte-level BPE: Decode(Encode(x)) == x for valid UTF-8. A byte that is not part of valid UTF-8 is read as U+FFFD
//     (as llama.cpp and Hugging Face do, so that ids agree with what models saw); SentencePiece keeps such
//     bytes as byte tokens.
//  5. Equal input gives equal ids; nothing depends on call order, although words that turn out to be one token are
//     remembered.
//
// # Concurrency
//
// A Tokenizer is immutable after New and safe for concurrent use. A [Decoder] belongs to one stream.
//
// # Source
//
// GGUF keys and type numbers: the GGUF specification. Reference implementations for ids: llama.cpp (llama-vocab.cpp) for
// BPE and SentencePiece, Hugging Face tokenizers for WordPiece (BertNormalizer, BertPreTokenizer, WordPiece),
// sentencepiece for Unigram and its precompiled character map. BPE: Sennrich et al. 2016; Unigram: Kudo 2018.
package tokenizer
