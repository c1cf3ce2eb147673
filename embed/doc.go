// Package embed turns texts into vectors and (query, passage) pairs into scores,
// with encoders that run inside the process on llm/model.
//
// # Invariants
//
//  1. A text's vector depends on the model, its Profile, the Role and the text,
//     never on what it was batched with.
//  2. Vectors have unit length and Dim numbers. Vectors of different Model()
//     strings must never meet: an index stores the string beside its vectors.
//  3. Any string is accepted. Invalid UTF-8 reads as U+FFFD, a text longer than
//     the model is cut after as many tokens as fit, the empty text has a vector
//     like any other. Text never becomes a control token.
//
// # Concurrency
//
// Encoder and Reranker may be shared. Their forward passes run one after another
// on the threads of the pool they were opened with, batch by batch, so that a
// question waits for at most one batch of a running ingestion.
//
// # Source
//
// Prefixes and pooling are the models' published recipes: BGE and E5 (asymmetric
// prefixes, CLS and mean pooling), Nomic Embed (task prefixes, mean pooling),
// MS MARCO cross-encoders (segments 0 and 1, one logit), Qwen3-Reranker (its
// prompt; logit of "yes" minus that of "no").
package embed
