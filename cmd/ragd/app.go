package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"ragd/answer"
	"ragd/catalog"
	"ragd/embed"
	"ragd/ingest"
	"ragd/llm"
	"ragd/llm/external"
	"ragd/llm/kernel"
	"ragd/retrieve"
	"ragd/store"
	"ragd/store/localpg"
)

// app opens the parts that a command needs, each once, and closes them in the opposite order.
type app struct {
	globals
	log      *slog.Logger
	progress *progress
	closers  []func()

	corpus   string // the one that the command is about; "": any
	pool     *kernel.Pool
	embedder *embed.Encoder
	reranker *embed.Reranker
	db       *store.Store
	cluster  *localpg.Cluster // the private database; nil with DATABASE_URL
	engine   *llm.Engine

	follow   sync.Mutex
	followed map[string]embed.Embedder // by model; see followEmbedder
}

func newApp(g globals) *app {
	level := slog.LevelWarn
	if g.Verbose {
		level = slog.LevelInfo
	}
	return &app{globals: g, progress: newProgress(), log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))}
}

func (a *app) close() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
}

// onClose registers what undoes an opening; its error can only be told.
func (a *app) onClose(what string, undo func() error) {
	a.closers = append(a.closers, func() {
		if err := undo(); err != nil {
			a.log.Error("close", "what", what, "error", err)
		}
	})
}

func (a *app) kv() kernel.KVType {
	return map[string]kernel.KVType{"auto": kernel.KVInt16, "f32": kernel.KVF32, "f16": kernel.KVF16, "int16": kernel.KVInt16, "mixed": kernel.KVMixed, "int8": kernel.KVInt8}[a.KV]
}

// workers is the pool that the engine and the encoders share, so that together they use the machine once.
func (a *app) workers() *kernel.Pool {
	if a.pool == nil {
		a.pool = kernel.NewPool(a.Threads)
		a.closers = append(a.closers, a.pool.Close)
	}
	return a.pool
}

// defaults is the set of models for this machine, and why.
func (a *app) defaults() (catalog.Set, string) {
	return catalog.Default(availableMemory(), runtime.GOMAXPROCS(0))
}

// modelPath finds a model by catalogue name or file; one that is in the catalogue but not on this machine is fetched, because naming it asks for it.
func (a *app) modelPath(ctx context.Context, name string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".gguf") {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("model file: %w", err)
		}
		return name, nil
	}
	m, ok := catalog.Lookup(name)
	if !ok {
		return "", fmt.Errorf("there is no model %q in the catalogue: 'ragd models list' shows them; a file needs a path", name)
	}
	if path, ok := m.Path(); ok {
		return path, nil
	}
	if a.Offline {
		return "", fmt.Errorf("model %s is not on this machine and --offline forbids to fetch it: run 'ragd models pull %s' with a connection", name, name)
	}
	return a.pull(ctx, m)
}

// pull fetches a model with a progress bar.
func (a *app) pull(ctx context.Context, m catalog.Model) (string, error) {
	bar := a.progress.bar("fetching "+m.Name, byteCount)
	path, err := catalog.Pull(ctx, m, bar.follow)
	bar.done()
	return path, err
}

func (a *app) answerModelPath(ctx context.Context) (string, error) {
	set, _ := a.defaults()
	return a.modelPath(ctx, cmp.Or(a.Model, set.Answer))
}

// prefixFile is where the engine keeps what was asked before over a restart: system prompts and passages that came again. It holds text of documents.
func (a *app) prefixFile() string { return filepath.Join(a.DataDir, "prefixes") }

// forgetPrefixes is for commands that change documents without an engine of their own.
func (a *app) forgetPrefixes() error { return llm.ForgetPrefixes(a.prefixFile()) }

// openEngine loads the answer model, or connects to the engine that is to write in its place.
func (a *app) openEngine(ctx context.Context) (*llm.Engine, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	if a.EngineURL != "" {
		return a.connectEngine()
	}
	return a.openModel(ctx)
}

// connectEngine is openEngine for an external engine, which is contacted with the first request.
func (a *app) connectEngine() (*llm.Engine, error) {
	key, err := secretOf(a.EngineKey, a.EngineKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the engine's key: %w", err)
	}
	config := external.Config{URL: a.EngineURL, Key: key, Model: a.EngineModel, First: a.EngineWait}
	a.engine, err = llm.Connect(llm.ExternalConfig{Config: config, ContextTokens: a.Context, Logger: a.log})
	if err != nil {
		return nil, err
	}
	a.onClose("engine", a.engine.Close)
	return a.engine, nil
}

// openModel loads the answer model into this process: what needs tokens and their probabilities has no use for an external engine.
func (a *app) openModel(ctx context.Context) (*llm.Engine, error) {
	if a.EngineURL != "" {
		return nil, fmt.Errorf("this needs tokens and their probabilities, which the external engine at %s does not give: run it without --engine-url", redactURL(a.EngineURL))
	}
	path, err := a.answerModelPath(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(a.DataDir, 0o700); err != nil { // the engine does without the file, then
		a.log.Info("prefixes are not kept", "reason", err)
	}
	a.engine, err = llm.Open(path, llm.Config{Pool: a.workers(), ContextTokens: a.contextTokens(), KV: a.kv(), PrefixFile: a.prefixFile(), Logger: a.log})
	if err != nil {
		return nil, err
	}
	a.onClose("engine", a.engine.Close)
	return a.engine, nil
}

// defaultContext is that of --context.
const defaultContext = 4096

// contextTokens is the context to open a model with. The default is 0 there, so that a model with a shorter one of its own can be used.
func (a *app) contextTokens() int {
	if a.Context == defaultContext {
		return 0
	}
	return a.Context
}

// openEmbedder loads the embedding model.
func (a *app) openEmbedder(ctx context.Context) (*embed.Encoder, error) {
	if a.embedder != nil {
		return a.embedder, nil
	}
	var err error
	a.embedder, err = a.loadEmbedder(ctx)
	return a.embedder, err
}

// openBackgroundEmbedder loads the embedding model once more, for documents that are read beside questions: an encoder does one batch at a time, and a
// question is not to wait for a batch of passages. It costs the memory of the weights a second time.
func (a *app) openBackgroundEmbedder(ctx context.Context) (*embed.Encoder, error) {
	return a.loadEmbedder(ctx)
}

func (a *app) loadEmbedder(ctx context.Context) (*embed.Encoder, error) {
	name := a.Embedder
	if name == "" {
		var err error
		if name, err = a.corpusModel(ctx); err != nil {
			return nil, err
		}
	}
	set, _ := a.defaults()
	return a.loadEmbedderNamed(ctx, cmp.Or(name, set.Embed))
}

func (a *app) loadEmbedderNamed(ctx context.Context, name string) (*embed.Encoder, error) {
	path, err := a.modelPath(ctx, name)
	if err != nil {
		return nil, err
	}
	e, err := embed.Open(path, a.workers(), profile(name))
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, e.Close)
	return e, nil
}

// corpusModel is the embedding model that the corpora in the database are made with, so that a change of model needs no change of settings; "" when
// that says nothing: there is no database open, no corpus in it, or they differ.
func (a *app) corpusModel(ctx context.Context) (string, error) {
	if a.db == nil {
		return "", nil
	}
	return a.modelOf(ctx, "", one(a.corpus)...)
}

// modelOf is the embedding model of the corpora of a tenant, or of those named; "" where there are none or they differ.
func (a *app) modelOf(ctx context.Context, tenant string, names ...string) (string, error) {
	corpora, err := a.db.Corpora(ctx, tenant, names...)
	if err != nil || len(corpora) == 0 {
		return "", err
	}
	model := corpora[0].Index.Model
	for _, c := range corpora {
		if c.Index.Model != model {
			return "", nil
		}
	}
	if _, ok := catalog.Lookup(model); !ok {
		return "", fmt.Errorf("corpus %q is made with embedding model %s, which is not in the catalogue: name its file with --embedder", corpora[0].Name, model)
	}
	return model, nil
}

// followEmbedder opens the embedder that the corpora of f are made with now: a server goes on when they are migrated to another model. Who names an
// embedder keeps it.
func (a *app) followEmbedder(ctx context.Context, f retrieve.Filter) (embed.Embedder, error) {
	if a.Embedder != "" {
		return nil, nil
	}
	model, err := a.modelOf(ctx, f.Tenant, f.Corpora...)
	if err != nil || model == "" {
		return nil, err
	}
	if a.embedder != nil && a.embedder.Model() == model { // the one that the server began with is open already
		return a.embedder, nil
	}
	a.follow.Lock()
	defer a.follow.Unlock()
	if e := a.followed[model]; e != nil {
		return e, nil
	}
	m, _ := catalog.Lookup(model)
	if _, ok := m.Path(); !ok { // a question fetches nothing
		return nil, fmt.Errorf("embedding model %s is not on this machine: run 'ragd models pull %s'", model, model)
	}
	e, err := a.loadEmbedderNamed(ctx, model)
	if err != nil {
		return nil, err
	}
	a.log.Info("the corpora are made with another embedding model now", "model", model)
	if a.followed == nil {
		a.followed = map[string]embed.Embedder{}
	}
	a.followed[model] = e
	return e, nil
}

// profile is how the catalogue says a model wants to be used; a file of the user's own is used as it says itself.
func profile(name string) embed.Profile {
	m, _ := catalog.Lookup(name)
	return embed.Profile{Name: m.Name, QueryPrefix: m.Profile.QueryPrefix, PassagePrefix: m.Profile.PassagePrefix, Pooling: m.Profile.Pooling, MaxTokens: m.Profile.MaxTokens}
}

// openReranker loads the cross-encoder; nil when it is turned off.
func (a *app) openReranker(ctx context.Context) (retrieve.Reranker, error) {
	name := a.Reranker
	if name == "none" {
		return nil, nil
	}
	if a.reranker != nil {
		return a.reranker, nil
	}
	set, _ := a.defaults()
	name = cmp.Or(name, set.Rerank)
	path, err := a.modelPath(ctx, name)
	if err != nil {
		return nil, err
	}
	a.reranker, err = embed.OpenReranker(path, a.workers(), profile(name))
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.reranker.Close)
	return a.reranker, nil
}

// openStore connects to the database: the one of DATABASE_URL, else the private one, which is installed and started when needed.
func (a *app) openStore(ctx context.Context) (*store.Store, error) {
	if a.db != nil {
		return a.db, nil
	}
	address, err := a.databaseURL(ctx)
	if err != nil {
		return nil, err
	}
	a.db, err = store.Open(ctx, address, a.log)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.db.Close)
	if err := a.db.UseReplicas(ctx, a.Replicas); err != nil {
		return nil, err
	}
	return a.db, nil
}

func (a *app) databaseURL(ctx context.Context) (string, error) {
	if a.DatabaseURL != "" {
		return a.DatabaseURL, nil
	}
	var bar *bar
	cluster, err := localpg.Start(ctx, a.DataDir, func(done, total int64, stage string) {
		if total == 0 {
			a.log.Info("database", "stage", stage)
			return
		}
		if bar == nil {
			bar = a.progress.bar("installing the private PostgreSQL", byteCount)
		}
		bar.set(done, total)
	})
	if bar != nil {
		bar.done()
	}
	if err != nil {
		return "", err
	}
	a.cluster = cluster
	a.onClose("database", cluster.Stop)
	return cluster.URL(), nil
}

// openRetriever joins database, embedder and reranker.
func (a *app) openRetriever(ctx context.Context) (*retrieve.Retriever, error) {
	return a.retrieverWith(ctx, retrieve.Config{})
}

// retrieverWith is openRetriever with a configuration of its own.
func (a *app) retrieverWith(ctx context.Context, config retrieve.Config) (*retrieve.Retriever, error) {
	db, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	embedder, err := a.openEmbedder(ctx)
	if err != nil {
		return nil, err
	}
	reranker, err := a.openReranker(ctx)
	if err != nil {
		return nil, err
	}
	if config.Student, err = a.rankers(embedder.Model()); err != nil {
		return nil, err
	}
	_, config.English = catalog.Lookup(embedder.Model()) // the encoders of the catalogue are English
	config.Follow = a.followEmbedder
	return retrieve.New(db, embedder, reranker, config), nil
}

// openAnswerer opens everything that an answer needs.
func (a *app) openAnswerer(ctx context.Context) (*answer.Answerer, error) {
	retriever, err := a.openRetriever(ctx)
	if err != nil {
		return nil, err
	}
	engine, err := a.openEngine(ctx)
	if err != nil {
		return nil, err
	}
	config, err := a.answerConfig(ctx)
	if err != nil {
		return nil, err
	}
	return answer.New(retriever, engine, config), nil
}

// splitter cuts passages in the embedder's own tokens.
func splitter(e *embed.Encoder) *ingest.Splitter {
	return &ingest.Splitter{MaxTokens: min(320, e.MaxPassageTokens()), Ends: e.SplitOffsets}
}

// openPipelineFor is openPipeline for one corpus: with its embedding model, unless another is asked for.
func (a *app) openPipelineFor(ctx context.Context, corpus string) (*ingest.Pipeline, error) {
	a.corpus = corpus
	return a.openPipeline(ctx)
}

// ingestMemory is where garbage collection becomes eager. Without it the heap may grow to twice what is in use, and a text of 200 MiB that is cut into
// passages is a lot in use. Weights and caches of models are not on the heap.
const ingestMemory = 640 << 20

// limitMemory is for commands that read documents; who sets GOMEMLIMIT knows better.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(ingestMemory)
	}
}

// openPipeline opens what ingestion needs.
func (a *app) openPipeline(ctx context.Context) (*ingest.Pipeline, error) {
	db, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	embedder, err := a.openEmbedder(ctx)
	if err != nil {
		return nil, err
	}
	if a.engine == nil {
		a.onClose("prefixes", a.forgetPrefixes)
	}
	limitMemory()
	return &ingest.Pipeline{Store: db, Embedder: embedder, Splitter: splitter(embedder), Limits: a.limits(), Logger: a.log}, nil
}

// redactURL hides the password in a database URL.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	return u.Redacted()
}

// errUsage marks a mistake on the command line that only a command can see.
var errUsage = errors.New("usage")
