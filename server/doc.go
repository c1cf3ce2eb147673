// Package server is the HTTP side of ragd: decode, one call, encode. Gin lives only here. openapi.yaml describes what is served, and tests hold it
// against the routes and every response.
//
// # Invariants
//
//  1. A listener beyond loopback needs an API key; without one [New] refuses. Without a key, requests that carry a foreign host name or come from a
//     foreign web site are refused.
//  2. One table (errors.go) maps errors to status codes; bodies follow the OpenAI error envelope; a 500 says nothing but a request id.
//  3. After a stream has started, an error is an event.
//  4. No log line holds question, answer or document text.
//  5. Documents are served as JSON text, never as something that a browser would run.
//  6. Every read from a client and every write to one has a deadline of its own; no deadline outlives its request on the connection.
//  7. A session of somebody who signed in is a cookie, and counts only with requests of this server's own page; a key counts only in its header.
//  8. What a request may cost is bounded before it starts: bytes, texts, tokens, beams; and in time.
//
// Offsets in native responses are UTF-8 bytes; in OpenAI-shaped ones they are Unicode code points, because its SDKs index strings.
//
// # Concurrency
//
// Handlers are stateless; a client that goes away cancels its own request only. The gate counts the requests under way: it bounds them, and when the
// server stops it closes first, so that they end before the listener does. One goroutine of Serve ingests what was uploaded.
//
// # Source
//
// WHATWG HTML, section 9.2 (server-sent events); the OpenAI API reference for /v1/chat/completions and /v1/embeddings; Cohere's API v2 for /v1/rerank.
package server
