// Package grammar restricts what a model may write, token by token.
//
// A [Grammar] is an automaton over bytes. A [Vocab] holds the bytes of all tokens as a trie; walking the two in lock
// step yields the set of tokens that may come next. Working on bytes makes token boundaries irrelevant: a token that
// spans the end of one construct and the start of the next is judged by its bytes like any other.
//
// # Invariants
//
//  1. The text of a sequence of accepted tokens is a prefix of a text of the grammar; once an end token is accepted it
//     is a text of the grammar.
//  2. A token is in [Matcher.Mask] exactly when [Matcher.Accept] takes it.
//  3. End-of-generation tokens are allowed exactly where a text may end. Other control tokens never are.
//
// # Concurrency
//
// [Vocab] and [Grammar] may be shared by goroutines. A [Matcher] belongs to one sequence and one goroutine.
//
// # Source
//
// Trie walk: llguidance (guidance-ai), toktrie. Quotes by construction: Bevilacqua et al., SEAL, 2022, with the suffix
// automaton of Blumer et al., 1985, instead of an FM-index.
package grammar
