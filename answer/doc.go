// Package answer takes one question through the whole line: rewrite it when it follows others, retrieve, fit a prompt into the context window,
// generate under a grammar that admits only real citation markers, and resolve each marker to the exact bytes of its source.
//
// # Invariants
//
//  1. A marker [n] in an answer names one of its Sources. The model can only write those of the prompt: the grammar admits no other (see
//     llm/grammar). A statement that none of them supports is looked up in whatever else was retrieved, before it loses its marker; a passage found so
//     is added to the Sources.
//  2. A citation's quote is the document's own text at [SourceStart, SourceEnd); it is cut from the passage, never generated.
//  3. When nothing relevant was retrieved the model is not asked, so its own memory cannot answer.
//  4. The prompt is system, then passages, then history, then question, so that the prefix up to the passages is shared by every question and the
//     prefix up to the question by every follow-up.
//  5. Text from documents and users never becomes a control token (see llm/chat).
//  6. A statement whose numbers, dates or names stand in none of its sources, or that its sources do not support, is taken out of the answer or, by
//     Config.Keep, stays without a marker and is listed in Answer.Unsupported; it is never silently kept.
//     One that its sources may contradict stays with its markers and is listed in Answer.Doubtful.
//     A sentence of a document that gives the model orders supports nothing.
//  7. What a reader was shown, after the last Event.Replaced if there was one, equals Answer.Text.
//  8. A calculation is exact, and each of its operands is a number of a source or of the question.
//
// # Concurrency
//
// An [Answerer] is immutable and safe for concurrent use; each call of Answer is one sequence.
package answer
