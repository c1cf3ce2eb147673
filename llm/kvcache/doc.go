// Package kvcache decides which page of the key/value cache holds which tokens. It moves integers only and never
// touches a float: the model owns the memory that a page number stands for.
//
// A page holds [PageTokens] consecutive tokens of every layer. Finished pages stay in a radix tree, one tree per
// namespace, whose edges are pages: a child is found by comparing all of the page's token ids, so a hash collision can
// never serve somebody else's text. Layers with a sliding window keep all their pages, too: a window layer then needs
// no special case after a cache hit, at the price of memory outside the window.
//
// # Invariants
//
//  1. free + cached + leased == total. A page is leased while at least one [Lease] holds it, cached when only the tree
//     does, and free otherwise.
//  2. A page is written only while exactly one lease and no tree node holds it; anything else is copied first.
//  3. Only whole pages of tokens that the caller declared verified ([Lease.Commit], [Lease.Release]) enter the tree, so a
//     rejected draft can never be reused.
//  4. A page in the tree is evicted only when no lease holds it and it has no child; the least recently used goes first.
//  5. A hit leaves at least one token to compute: logits are not cached.
//
// # Concurrency
//
// None: a [Cache] and its leases belong to one goroutine.
//
// # Source
//
// Kwon et al., PagedAttention, SOSP 2023; Zheng et al., SGLang (RadixAttention), 2024.
package kvcache
