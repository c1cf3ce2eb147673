// Package indextest tells whether an implementation of [ragd/retrieve.Index] keeps its promises: [Run] is the conformance suite, [Memory] an
// implementation in memory that is written to be read, against which others are compared.
//
// # Invariants
//
//  1. Memory is the plain form of the arithmetic: BM25 by its formula, the dense leg by comparing with every vector.
//  2. The suite uses nothing of an index but its interface and a [Loader].
//
// # Concurrency
//
// A Memory is safe for concurrent use.
//
// # Source
//
// BM25: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3; idf as in Apache Lucene's BM25Similarity.
package indextest
