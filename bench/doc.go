// Package bench measures how fast the engine runs a model on this machine, and beside another engine in the same run.
//
// # Invariants
//
//  1. Repetitions of the things compared alternate, so that a machine that slows down slows all of them.
//  2. A rate is the median of its repetitions.
//
// # Concurrency
//
// One measurement at a time; anything else that runs on the machine disturbs it.
package bench
