// Package answer takes one question through the whole line: rewrite it when it follows others, retrieve, fit a prompt into the context window,
// generate under a grammar that admits only real citation markers, and resolve each marker to the exact bytes of its source.
//
// # Invariants
//
//  1. A marker [n] in an answer names a passage that stood in the prompt: the grammar admits no other (see llm/grammar).
//  2. A citation's quote is the document's own text at [SourceStart, SourceEnd); it is cut from the passage, never generated.
//  3. When nothing relevant was retrieved the model is not asked, so its own memory cannot answer.
//  4. The prompt is system, then passages, then history, then question, so that the prefix up to the passages is shared by every question and the
//     prefix up to the question by every follow-up.
//  5. Text from documents and users never becomes a control token (see llm/chat).
//
// # Concurrency
//
// An [Answerer] is immutable and safe for concurrent use; each call of Answer is one sequence.
package answer
