// Package eval measures ragd on sets of questions with known answers. A set is a folder of plain files: corpus.jsonl (passages), queries.jsonl
// (questions), qrels.tsv (which passages are right, with a gain), so that any other implementation can be measured on the same files.
//
// # Invariants
//
//  1. What is measured is the product: the corpus goes through ingest's states into the store, questions go through retrieve.
//  2. Passages are the product's own; a gold passage of the set is found where the best of the passages cut from it is found.
//
// # Concurrency
//
// Functions only; questions are asked one after the other, so that latencies mean something.
//
// # Source
//
// nDCG: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002, with linear gains. MRR, recall: as in TREC.
package eval
