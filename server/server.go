package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"ragd/embed"
	"ragd/ingest"
	"ragd/llm"
	"ragd/login"
	"ragd/retrieve"
)

// Config tunes a [Server]. Its zero value listens on loopback without a key.
type Config struct {
	Listen       string        // host:port; "" means 127.0.0.1:8080
	APIKey       string        // the server's own key, which permits everything in the default tenant; "" means that there is none
	NeedKey      bool          // refuse requests without a key, also on loopback; without it an APIKey alone makes keys necessary
	UploadBytes  int64         // largest upload; 0 means 256 MiB
	KeepAnswers  time.Duration // records of answers are removed after that time; 0 means 30 days
	KeepAudit    time.Duration // entries of the audit log are removed after that time; 0 means one year
	KeepVersions time.Duration // how long versions of documents that were replaced can be cited; 0: for ever
	OutputTokens int           // that one request may have written, all its answers and beams together; 0 means 8192
	RequestTime  time.Duration // of one request that computes; 0 means 10 minutes
	Requests     int           // API requests under way at once, more are told to come back; 0 means 128
	Patience     time.Duration // longest that a request may have to wait for others, as far as can be foreseen; 0 means one minute
	LoginTime    time.Duration // how long somebody who signed in stays so; 0 means 12 hours
	Version      string        // of the program, for the metrics
	PingEvery    time.Duration // between signs of life on a silent stream; 0 means 15 s, under the idle limits of common proxies
	WriteTimeout time.Duration // of one write to a client that does not read; 0 means 30 s
	ReadTimeout  time.Duration // of one read from a client that does not send; 0 means 30 s
	DrainTime    time.Duration // for requests under way to end when the server stops; 0 means 30 s
}

func (c *Config) fill() {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8080"
	}
	if c.UploadBytes <= 0 {
		c.UploadBytes = 256 << 20
	}
	if c.Requests <= 0 {
		c.Requests = 128
	}
	if c.Patience <= 0 {
		c.Patience = time.Minute
	}
	if c.PingEvery <= 0 {
		c.PingEvery = 15 * time.Second
	}
	c.OutputTokens, c.RequestTime = cmp.Or(c.OutputTokens, 8192), cmp.Or(c.RequestTime, 10*time.Minute)
	c.LoginTime = cmp.Or(c.LoginTime, 12*time.Hour)
	c.KeepAnswers, c.KeepAudit = cmp.Or(c.KeepAnswers, 30*24*time.Hour), cmp.Or(c.KeepAudit, 365*24*time.Hour)
	for _, timeout := range []*time.Duration{&c.WriteTimeout, &c.ReadTimeout, &c.DrainTime} {
		if *timeout <= 0 {
			*timeout = 30 * time.Second
		}
	}
}

// Retriever ranks passages. *retrieve.Retriever implements it.
type Retriever interface {
	Retrieve(ctx context.Context, query string, f retrieve.Filter, k int) (retrieve.Result, error)
}

// Pipeline takes documents in. *ingest.Pipeline implements it.
type Pipeline interface {
	Index() ingest.Index
	Run(ctx context.Context, tenant, corpus string, paths []string, progress func(ingest.Progress)) (ingest.Report, error)
}

// Parts are what the routes call; Reranker, Keys, Files, Answers, Login and Traces may be nil.
type Parts struct {
	Answerer  Answerer
	Retriever Retriever
	Library   Library
	Keys      Keys
	Uploads   Uploads
	Jobs      Jobs
	Files     Files
	Answers   Answers
	Pipeline  Pipeline
	Embedder  embed.Embedder
	Reranker  retrieve.Reranker
	Engine    *llm.Engine
	Login     *login.Provider
	Traces    trace.TracerProvider
}

// Server serves the API and the page.
type Server struct {
	Parts
	config  Config
	keyHash [sha256.Size]byte
	log     *slog.Logger
	metrics *metrics
	tracer  tracer
	gate    *gate
	pace    *pace
	running running
	logins  chan struct{} // one place per request that waits for the provider of accounts
	filing  chan struct{} // one place per file of /v1/files in memory
	arrived chan struct{} // has room for one: documents wait to be worked on
	handler http.Handler
}

// ErrKeyNeeded is returned by [New] for a listener beyond loopback that would need no key.
var ErrKeyNeeded = errors.New("server: listening beyond loopback needs an API key: make one with 'ragd keys create', set RAGD_API_KEY (or --api-key-file), or listen on 127.0.0.1")

// New returns a server for p. It does not listen yet.
func New(p Parts, c Config, log *slog.Logger) (*Server, error) {
	c.fill()
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("server: listen address %q: %w; write host:port, for example 127.0.0.1:8080", c.Listen, err)
	}
	if p.Login != nil && p.Keys == nil {
		return nil, errors.New("server: sign-in needs the table of keys")
	}
	c.NeedKey = c.NeedKey || p.Login != nil
	if c.APIKey == "" && !c.NeedKey && !loopback(host) {
		return nil, ErrKeyNeeded
	}
	s := &Server{
		Parts: p, config: c, keyHash: sha256.Sum256([]byte(c.APIKey)), log: log, metrics: newMetrics(p.Engine, c.Version, p.Library.Waiting), tracer: newTracer(p.Traces),
		gate: newGate(c.Requests), pace: &pace{patience: c.Patience, free: 8}, filing: make(chan struct{}, filesAtOnce), logins: make(chan struct{}, loginsAtOnce), arrived: make(chan struct{}, 1),
	}
	s.handler = s.routes()
	return s, nil
}

// loopback reports whether host names this machine only; a name that must be resolved, other than localhost, does not count.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Handler returns the routes, for tests and for mounting. Documents that are uploaded are worked on by [Server.Serve] only.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve listens until ctx ends, then refuses new requests, lets those under way finish, and returns. ready is told the address.
func (s *Server) Serve(ctx context.Context, ready func(address string)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return fmt.Errorf("server: listen on %s: %w; choose another address with --listen", s.config.Listen, err)
	}
	// No WriteTimeout: an answer streams for as long as it takes. Every read of a body and every write has its own deadline (see patience and stream).
	hs := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	working, stopWorking := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.work(working) })
	defer background.Wait()
	defer stopWorking()
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(listener) }()
	ready(listener.Addr().String())
	select {
	case err := <-ended:
		return fmt.Errorf("server: %w", err)
	case <-ctx.Done():
	}
	return s.drain(hs)
}

// drain stops hs gently. The listener stays open while answers end, so that /readyz and new requests are told 503 instead of meeting a closed door.
func (s *Server) drain(hs *http.Server) error {
	s.log.Info("stopping", "drain_s", s.config.DrainTime.Seconds())
	grace, cancel := context.WithTimeout(context.Background(), s.config.DrainTime)
	defer cancel()
	select {
	case <-s.gate.close():
	case <-grace.Done():
	}
	if err := hs.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("server: requests were still running after %s and were cut off", s.config.DrainTime), hs.Close())
	}
	return nil
}
