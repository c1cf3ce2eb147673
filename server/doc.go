// Package server is the HTTP side of ragd: decode, one call, encode. Gin lives only here.
//
// # Invariants
//
//  1. A listener beyond loopback needs an API key; without one [New] refuses.
//  2. One table (errors.go) maps errors to status codes; bodies follow the OpenAI error envelope; a 500 says nothing but a request id.
//  3. After a stream has started, an error is an event.
//  4. No log line holds question, answer or document text.
//  5. Documents are served as JSON text or as downloads, never as something that a browser would run.
//
// Offsets in native responses are UTF-8 bytes; in OpenAI-shaped ones they are Unicode code points, because its SDKs index strings.
//
// # Concurrency
//
// Handlers are stateless; a client that goes away cancels its own request only.
//
// # Source
//
// WHATWG HTML, section 9.2 (server-sent events); the OpenAI API reference for /v1/chat/completions and /v1/embeddings.
package server
