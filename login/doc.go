// Package login lets people sign in to the page with an account that they have already, at a provider that speaks OpenID Connect. It proves who comes
// back from the provider and says what that person may do; sessions, cookies and routes are the server's.
//
// # Invariants
//
//  1. Nothing is asked of the provider before somebody signs in.
//  2. Only the browser that began an attempt can complete it (state), with a code that was made for it (PKCE, S256) and a token that was (nonce).
//  3. A token counts when the provider signed it, for this client, and it has not expired. Keys of the provider that change are fetched again.
//  4. Nobody is let in who has no grant. Of several the first counts; they are never added up, because rights on different corpora must not mix.
//
// # Concurrency
//
// A [Provider] may be used from any number of goroutines.
//
// # Source
//
// OpenID Connect Core 1.0, sections 3.1 and 5.3; RFC 7636 (PKCE); OpenID Connect RP-Initiated Logout 1.0.
package login
