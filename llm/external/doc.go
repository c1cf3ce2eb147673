// Package external talks to a language model behind an OpenAI-compatible API, such as vLLM or llama-server, for people who have one on a GPU. It sends
// messages and reads the answer as it is written. Nothing is contacted before [Client.Chat] or [Client.Ping] is called.
//
// # Invariants
//
//  1. Only the configured server is contacted: redirects are not followed, because they would carry prompt and key elsewhere.
//  2. Errors hold nothing of the prompt: of what the server says, the message is kept for statuses about access and model names only.
//  3. A call ends: with the answer, with an error, or with its context; a server that falls silent is given up after a time.
//
// # Concurrency
//
// A Client is safe for concurrent use.
//
// # Source
//
// OpenAI API reference, chat completions and their streaming events. The event stream format: WHATWG HTML, section 9.2.6.
package external
