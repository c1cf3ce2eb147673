// Package distill trains small models, students, to do what a large one, the teacher, does on one user's text. It runs on a CPU in minutes, offline.
//
// The causal student ([Student]) is a small llama with the teacher's tokenizer. It minimises the cross-entropy to the teacher's whole next-token
// distribution ([Labels]) and is saved as a GGUF file. So that a vocabulary of 49,152 or 151,936 tokens is practical, only the tokens that are frequent
// in the text have a row of their own; all others share one. That is not an approximation of the file's model: its embedding repeats the shared row,
// its softmax counts it as often as there are such tokens, and so does the loss.
//
// The ranking student ([Ranker]) turns the scores that both retrieval legs already have into an order, and may turn the question's vector first; its
// teacher is a cross-encoder.
//
// # Invariants
//
//  1. A run is a function of its text, teacher, options and seed: the same bits for any number of threads, and after a kill and a resumption.
//  2. Nothing of a document that is held out is seen in training; equal documents count once.
//  3. Files appear complete or not at all.
//
// # Concurrency
//
// Functions run on the pool they are given and belong to one goroutine.
//
// # Source
//
// Hinton, Vinyals, Dean, "Distilling the Knowledge in a Neural Network", 2015, section 2 (the factor T² is theirs). Adam with decoupled weight decay:
// Loshchilov, Hutter, 2019. Listwise loss: Cao et al., "Learning to Rank: From Pairwise Approach to Listwise Approach", 2007. Acceptance of a draft
// under sampling: Leviathan et al., 2023, theorem 3.5.
package distill
