// Command ragd answers questions from private documents. This comment is the tour of the code.
//
// A question travels like this:
//
//	server (HTTP) or cmd/ragd (CLI)
//	  → answer       rewrite → retrieve → fit the prompt → generate → resolve citations
//	      → retrieve     dense leg + lexical leg → fusion → cross-encoder
//	          → store        the only package with SQL; Postgres + pgvector
//	          → embed        encoders: text → vector, (question, passage) → score
//	      → llm          the engine: continuous batching over a paged, prefix-sharing KV cache
//	          → sched → kvcache, sample, grammar    integers and probabilities, no floats of the model
//	          → model → kernel → quant, gguf        weights, forward pass, assembly with plain Go twins
//	          → tokenizer, chat                     bytes ↔ tokens, messages → tokens
//
// A document travels like this:
//
//	ingest: walk → parse (one file per format) → split into passages → embed → store; a state machine in Postgres, so that any crash resumes
//
// Around them: catalog (which models exist and how to fetch them), llm/convert (ONNX and safetensors to GGUF), llm/external (an engine elsewhere that
// writes in place of a model of this process), store/localpg (a private Postgres when
// there is no DATABASE_URL), eval (sets, metrics), bench (speed), web (the page), login (people who sign in).
//
// Imports go one way; the table is in deps_test.go. This package wires values together and holds one file per subcommand; it alone reads flags,
// environment and files of settings.
package main
