// Package verify says whether a text supports a statement. It reads both as terms, numbers, dates, names and negations and joins what it sees into one
// probability by a logistic model whose coefficients are a data file. A [Gauge] also measures what a cross-encoder, an embedder and a language model
// say, so that a fit can show whether they add anything.
//
// # Invariants
//
//  1. [Check] and [CheckAsked] are functions of their arguments; they ask no model. What one said is an argument.
//  2. A number, date or name of a statement that stands neither in the evidence nor in the question is reported with its place, whatever the
//     probability.
//  3. [InOtherRows] reports only what a table says for certain of its rows and columns; whatever may explain a number otherwise excuses it.
//
// # Concurrency
//
// A [Gauge] is immutable and safe for concurrent use when its helpers are.
//
// # Source
//
// Citation recall and precision by entailment: Gao et al., "Enabling Large Language Models to Generate Text with Citations", EMNLP 2023. The
// probability of one word as a model's judgement: Kadavath et al., "Language Models (Mostly) Know What They Know", 2022. Coverage by copied fragments: Grusky
// et al., "Newsroom", NAACL 2018.
package verify
