// Package arith finds numbers in text and computes with them exactly: a calculator whose operands are the numbers that a source holds, so that no
// rounding and no invention stands between a document and a result.
//
// # Invariants
//
//  1. Values are exact rationals. A result is rounded only when it is written, and then says so.
//  2. A number is where it says: text[Start:End] is its spelling.
//
// # Concurrency
//
// Functions only.
//
// # Source
//
// Separators of thousands and decimals are read as Unicode's CLDR describes them for the languages that ragd knows; a single separator followed by
// exactly three digits is one of thousands.
package arith
