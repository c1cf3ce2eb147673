// Package llm is the engine's facade: open a GGUF file, hand in token ids, read a stream of tokens.
//
// An [Engine] owns one model, one key/value cache and one goroutine that schedules every request, so callers never
// manage slots or caches: they state the whole prompt and the engine reuses, extends or rebuilds what it has.
//
// Dimension letters used in every package below this one: B batch, T tokens, H heads, KV key/value heads, D head
// dimension, E embedding, F feed-forward, V vocabulary. A token id is an int32 everywhere. Ranges are half-open and
// offsets are UTF-8 bytes.
//
// # Invariants
//
//  1. The bytes of an answer depend on the model file, the kernel path and the request alone: never on the load, on what
//     was cached, on how the prompt was cut into chunks, on guessed tokens, or on the number of threads.
//  2. A prompt is processed whole or refused with [ErrTooLong]. Nothing is ever dropped from it.
//  3. Text that is part of a stop string is never sent, not even its first byte.
//  4. Every accepted request ends exactly once: with a finish reason or with an error.
//  5. Pages of the key/value cache that a finished or cancelled request held are free or cached, never lost.
//  6. Prefixes are shared only within one namespace.
//
// # Concurrency
//
// All methods of [Engine] may be called from any goroutine. A [Stream] is read by one goroutine; its Usage and
// FinishReason are valid after its events have ended. An engine without requests sleeps on a channel.
//
// # Source
//
// Continuous batching: Yu et al., Orca, OSDI 2022. Chunked prefill: Agrawal et al., Sarathi-Serve, OSDI 2024. Paged
// cache: Kwon et al., PagedAttention, SOSP 2023. Radix prefix cache: Zheng et al., SGLang, 2024. Fairness: Sheng et al.,
// Virtual Token Counter, OSDI 2024. Drafts from the prompt: Saxena, Prompt Lookup Decoding, 2023; the check is that of
// Leviathan et al., 2023, for drafts without a distribution.
package llm
