// Package store keeps corpora in PostgreSQL with pgvector: documents and their versions, passages, vectors, the lexical index, the work queue of
// ingestion, answers and API keys. It is the only package with SQL. [Store] implements [ragd/retrieve.Index] and [ragd/ingest.Store].
//
// # Invariants
//
//  1. Every statement names the tenant; no function returns a row of another.
//  2. passage_vectors and postings hold exactly the passages of live versions. The switch from one version to the next is one transaction, and so is
//     a deletion, which leaves nothing of the document in any table.
//  3. The vectors of a corpus are of one space (model and dimension), its passages of one splitter, its terms of one analyzer; anything else is
//     refused with an error that names both, and of vectors by a constraint of the database. [Store.Switch] changes all of it in one transaction.
//  4. A filter never makes a leg return fewer hits than there are: where an approximate index under-delivers, the leg scans exactly.
//  5. A search reads from a replica only while the replica's snapshot has the corpora as the primary has them; everything else is the primary's.
//  6. Text that reaches a statement is valid UTF-8 without NUL.
//
// # Concurrency
//
// A Store is safe for concurrent use, and any number of processes may use one database. Transactions lock in this order: corpora, documents,
// document_versions; what changes the lexical index of a corpus holds its row, so postings have one writer at a time and need no locks of their own.
// Reads take no locks: each leg, and all legs of a [Store.Snapshot], see one snapshot.
//
// # Source
//
// BM25: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3; idf as in Apache Lucene's
// BM25Similarity. HNSW: pgvector 0.8 README, "Iterative Index Scans". Leases with fencing tokens: Gray and Cheriton, SOSP 1989.
package store
