// Package personal finds personal data in text: e-mail addresses, telephone
// and payment card numbers, IBANs and national identity numbers, and hides them.
//
// # Invariants
//
//  1. What has a check digit is found only where it is right; what has none is
//     found only in a notation that hardly anything else has, or after a word
//     that says what it is. Missing a number is better than flagging an invoice.
//  2. Findings are in order and do not overlap; ranges are bytes of the text.
//  3. Hide keeps the length in bytes, so that positions in the text stay true.
//
// # Concurrency
//
// All functions may be called from any number of goroutines.
//
// # Source
//
// ISO/IEC 7812 (cards, Luhn), ISO 13616 (IBAN, mod 97), ITU E.164 (telephone
// numbers), and the rules of each country's numbers, named where they are checked.
package personal
