package main

import (
	"fmt"
	"time"

	"ragd/login"
	"ragd/server"
)

type serveCmd struct {
	Listen     string `help:"host:port. Beyond loopback a key is needed." env:"RAGD_LISTEN" default:"127.0.0.1:8080"`
	APIKey     string `help:"Key that clients send as a bearer token." env:"RAGD_API_KEY" name:"api-key" secret:""`
	APIKeyFile string `help:"File that holds the key." env:"RAGD_API_KEY_FILE" name:"api-key-file" type:"existingfile"`

	KeepVersions time.Duration `help:"How long versions of documents that were replaced can be cited; 0: for ever." env:"RAGD_KEEP_VERSIONS" default:"720h"`

	MaxOutput   int           `help:"Tokens that one request may have written, all its answers and beams together." env:"RAGD_MAX_OUTPUT" default:"8192"`
	Patience    time.Duration `help:"Longest that a request may have to wait for others, as far as can be foreseen: more are told to come back." env:"RAGD_PATIENCE" default:"1m"`
	RequestTime time.Duration `help:"Longest that one request may compute." env:"RAGD_REQUEST_TIME" default:"10m"`

	PublicURL string     `help:"Address of this server as browsers see it, for sign-in: https://ragd.example.com." env:"RAGD_PUBLIC_URL" name:"public-url"`
	Login     loginFlags `embed:"" prefix:"login-"`
}

// Help is shown by ragd serve --help.
func (serveCmd) Help() string {
	return `Serves the page at / and the API at /v1: ask, search, rerank, documents, passages, and OpenAI's chat/completions and embeddings;
/openapi.yaml describes it. Stops on the first interrupt after running answers have ended, on the second at once.

  ragd serve
  ragd keys create --name team --role editor && ragd serve --listen 0.0.0.0:8080
  ragd serve --public-url https://ragd.example.com --login-issuer https://id.example.com --login-client-id ragd --login-grant staff=reader
  curl -N localhost:8080/v1/ask -d '{"question":"How many vacation days do I have?","stream":true}'`
}

func (k serveCmd) Run(ctx ctxBinding, a *app) error {
	key, err := secretOf(k.APIKey, k.APIKeyFile)
	if err != nil {
		return fmt.Errorf("read the API key: %w", err)
	}
	provider, err := k.Login.provider(k.PublicURL)
	if err != nil {
		return err
	}
	return a.serve(ctx, provider, server.Config{Listen: k.Listen, APIKey: key, KeepVersions: k.KeepVersions, OutputTokens: k.MaxOutput, RequestTime: k.RequestTime, Patience: k.Patience, LoginTime: k.Login.Time, Version: version()})
}

// parts opens everything that a server needs.
func (a *app) parts(ctx ctxBinding) (p server.Parts, err error) {
	retriever, err := a.openRetriever(ctx)
	if err != nil {
		return p, err
	}
	engine, err := a.openEngine(ctx)
	if err != nil {
		return p, err
	}
	pipeline, err := a.openPipeline(ctx)
	if err != nil {
		return p, err
	}
	background, err := a.openBackgroundEmbedder(ctx)
	if err != nil {
		return p, err
	}
	pipeline.Embedder = background
	reranker, err := a.openReranker(ctx)
	if err != nil {
		return p, err
	}
	answerer, err := a.openAnswerer(ctx)
	if err != nil {
		return p, err
	}
	return server.Parts{
		Answerer: answerer, Retriever: retriever, Library: a.db, Uploads: a.db, Jobs: a.db, Keys: a.db, Files: a.db, Answers: a.db, Pipeline: pipeline, Embedder: a.embedder, Reranker: reranker, Engine: engine,
	}, nil
}

// serve opens everything and serves until ctx ends; people sign in at provider, unless it is nil.
func (a *app) serve(ctx ctxBinding, provider *login.Provider, c server.Config) error {
	parts, err := a.parts(ctx)
	if err != nil {
		return err
	}
	parts.Login = provider
	if parts.Traces, err = a.openTraces(ctx); err != nil {
		return err
	}
	hasKeys, err := a.db.HasKeys(ctx)
	if err != nil {
		return err
	}
	c.NeedKey = c.NeedKey || hasKeys
	s, err := server.New(parts, c, a.log)
	if err != nil {
		return err
	}
	if address := parts.Engine.External(); address != "" {
		a.progress.step("answers are written by the engine at %s: questions and passages are sent there", address)
	} else {
		a.progress.step("%s: %s", parts.Engine.Name(), parts.Engine.Memory())
	}
	return s.Serve(ctx, func(address string) {
		a.progress.step("ragd serves http://%s (stop with Ctrl-C)", address)
	})
}
