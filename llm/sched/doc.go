// Package sched decides which tokens of which requests the model computes next, and turns its logits into events.
//
// Every step is one forward pass over a mixed batch: first one token for each sequence that is being decoded, then
// pieces of prompts as far as a time budget reaches, then newly admitted prompts. A sequence that finds no free page
// takes them from the lowest-ranked one, which is recomputed later, mostly from the prefix cache.
//
// # Invariants
//
//  1. The tokens of a request do not depend on what else runs: batched, chunked, cached and preempted runs produce what
//     the request alone produces, provided the model's rows do not depend on each other.
//  2. The highest-ranked running sequence (priority, then admission order) is never preempted, and a request that could
//     not finish alone is refused at [Scheduler.Submit]; so some sequence always makes progress.
//  3. A request ends exactly once per answer: with a finish reason, or with an error, or by [Scheduler.Cancel].
//  4. Only computed tokens whose pages are full are committed to the cache.
//  5. Among namespaces of equal priority the one that was served least goes first, so none is starved by another.
//
// # Concurrency
//
// None: a [Scheduler] belongs to one goroutine. It starts no goroutine, uses no channel and reads the time only from
// the clock it was given.
//
// # Source
//
// Yu et al., Orca, OSDI 2022 (continuous batching); Agrawal et al., Sarathi-Serve, OSDI 2024 (chunked prefill); Sheng et
// al., OSDI 2024 (virtual token counter); Zheng et al., SGLang, 2024 (waiting for a prefix that is being computed).
package sched
