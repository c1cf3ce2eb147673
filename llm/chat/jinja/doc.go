// Package jinja renders the subset of Jinja that chat templates of language models use, in a sandbox, and keeps track of which
// bytes of the result came from the conversation.
//
// A template is code that comes with a model file, and the messages are text from anybody. The result is therefore a [Text], which
// knows for every byte whether the template wrote it (trusted: "<|im_start|>" there is a control token) or whether it came in through
// [Untrusted] (text, whatever it looks like).
//
// Supported: if, for (with else, if, break, continue, tuple targets), set (also attributes of a namespace, and blocks), macro, call, filter, with, raw,
// generation; whitespace control with trim_blocks and lstrip_blocks on, as Hugging Face sets them; the operators, the literals, slices, the tests, filters, methods
// and globals listed in tests.go, filters.go, methods.go and globals.go. There is no include, import or extends, and no access to anything outside
// the values passed in.
//
// # Invariants
//
//  1. A byte of untrusted text stays untrusted through every operation. An operation that cannot say which part of its result a byte came
//     from marks the whole result.
//  2. Rendering ends: at most Limits.Steps evaluations, at most Limits.Bytes of text made on the way, at most maxDepth nested calls.
//     These bound time as well, and unlike a clock they fail at the same place on every machine.
//  3. The same template and values give the same text; the clock is not read.
//
// # Concurrency
//
// A Template is immutable and safe for concurrent use. Values belong to one Render call: templates may append to lists.
//
// # Source
//
// Jinja 3.1 template designer documentation; behaviour checked against its ImmutableSandboxedEnvironment (testdata). The environment's
// settings and extra functions (tojson, raise_exception, strftime_now) follow Hugging Face transformers' chat template utilities.
package jinja
