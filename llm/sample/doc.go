// Package sample turns a row of logits into a token.
//
// The order is: raw log-probabilities are taken, then logit bias, grammar mask, penalties, temperature, min-p, top-k,
// top-p, and one draw (the order of OpenAI-compatible servers; temperature comes before the cut-offs).
//
// # Invariants
//
//  1. A draw depends on the logits, the parameters, the tokens generated so far, the seed and the position of the token,
//     and on nothing else: the random number is a hash of (seed, stream, position), not the state of a generator.
//  2. Greedy decoding and every cut-off break ties towards the lowest token id.
//  3. At least one token always survives the cut-offs. A masked token is never returned.
//  4. Log-probabilities are those of the model: they are computed before any modification.
//
// # Concurrency
//
// A [Sampler] belongs to one sequence and one goroutine. Functions are pure.
//
// # Source
//
// Top-p: Holtzman et al., 2020. Min-p: Nguyen et al., 2024. Penalties: OpenAI API reference (presence, frequency) and
// Keskar et al., CTRL, 2019 (repetition). Random numbers: Steele et al., SplitMix, 2014. Beam search: Wu et al., GNMT,
// 2016, section 7.
package sample
