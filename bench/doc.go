// Package bench measures how fast the engine runs a model on this machine, beside other engines in the same run, and how far that is from what the
// machine could do.
//
// A [Suite] runs works: prefill, decoding, batches, a run without a cache, a serving load, and so on. Each gives rows of one table, which [Table] keeps in
// a file of comma-separated values and [Plot] draws.
//
// # Invariants
//
//  1. Repetitions of the things compared alternate, so that a machine that slows down slows all of them.
//  2. A figure is the median of its repetitions.
//  3. A ratio says how many times better ragd is: above 1 it is faster, sooner or smaller, whatever the unit.
//  4. A limit follows from two measurements of the same run, read bandwidth and integer peak, and from the model's file: see [Cost].
//  5. Every row says how much of the processor other programs took meanwhile.
//
// # Concurrency
//
// One measurement at a time; anything else that runs on the machine disturbs it.
//
// # Source
//
// Roofline: Williams, Waterman and Patterson, CACM 2009. Goodput: Zhong et al., DistServe, OSDI 2024.
package bench
