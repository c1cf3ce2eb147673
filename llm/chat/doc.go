// Package chat turns a conversation into the token ids a model was trained to read.
//
// The format is the Jinja template that comes with the model file (package jinja renders it), or a preset of the model's family where the file has
// none. Whatever a message contains, it stays text: only bytes that the template itself wrote can become control tokens.
//
// # Invariants
//
//  1. Message content never yields a control token, and never changes which control tokens surround it. A role is one of three words.
//  2. The ids equal those of the rendered text tokenized as a whole, as long as no message spells a control token: content and template are
//     merged where they touch, as in training.
//  3. At most one begin token, whether the template, the tokenizer or both would add it.
//  4. The same messages give the same ids, on every day: a growing conversation keeps its prefix, so its cache is reused.
//
// # Concurrency
//
// A Template is immutable and safe for concurrent use.
//
// # Source
//
// Hugging Face transformers, apply_chat_template, for the variables and the environment; the published formats of the families for the presets.
package chat
