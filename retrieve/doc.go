// Package retrieve turns a question into ranked passages: a dense leg (embedding similarity) and a lexical leg (BM25) are asked, their rankings
// are combined by their scores, and the best candidates are read again by a cross-encoder. It is arithmetic over an [Index]; it holds no SQL and no model.
//
// # Invariants
//
//  1. A passage that is missing from a leg contributes exactly nothing for that leg.
//  2. The order of equally scored passages is the order of their ids, so a ranking is a function of its inputs.
//  3. Where the models know English alone, a question in another language is ranked by words first: never below the lexical leg.
//  4. The filter goes to the index with each leg; nothing is filtered after the fact.
//
// # Concurrency
//
// A [Retriever] is immutable and safe for concurrent use; both legs of one question run at the same time.
//
// # Source
//
// Convex combination of scores: Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.
// Reciprocal rank fusion: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods", SIGIR 2009.
package retrieve
