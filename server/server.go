package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ragd/embed"
	"ragd/ingest"
	"ragd/llm"
	"ragd/retrieve"
	"ragd/web"
)

// Config tunes a [Server]. Its zero value listens on loopback without a key.
type Config struct {
	Listen      string // host:port; "" means 127.0.0.1:8080
	APIKey      string // what clients must send as a bearer token; needed beyond loopback
	UploadBytes int64  // largest upload; 0 means 256 MiB
	Version     string
}

// Retriever ranks passages. *retrieve.Retriever implements it.
type Retriever interface {
	Retrieve(ctx context.Context, query string, f retrieve.Filter, k int) (retrieve.Result, error)
}

// Parts are what the routes call.
type Parts struct {
	Answerer  Answerer
	Retriever Retriever
	Library   Library
	Pipeline  *ingest.Pipeline
	Embedder  embed.Embedder
	Engine    *llm.Engine
}

// Server serves the API and the page.
type Server struct {
	Parts
	config   Config
	keyHash  [sha256.Size]byte
	log      *slog.Logger
	metrics  *metrics
	worker   *worker
	handler  http.Handler
	draining atomic.Bool
}

// ErrKeyNeeded is returned by [New] for a listener beyond loopback without a key.
var ErrKeyNeeded = errors.New("server: listening beyond loopback needs an API key: set RAGD_API_KEY (or --api-key-file), or listen on 127.0.0.1")

// New returns a server for p. It does not listen yet.
func New(p Parts, c Config, log *slog.Logger) (*Server, error) {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8080"
	}
	if c.UploadBytes <= 0 {
		c.UploadBytes = 256 << 20
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("server: listen address %q: %w; write host:port, for example 127.0.0.1:8080", c.Listen, err)
	}
	if c.APIKey == "" && !loopback(host) {
		return nil, ErrKeyNeeded
	}
	s := &Server{Parts: p, config: c, keyHash: sha256.Sum256([]byte(c.APIKey)), log: log, metrics: newMetrics(p.Engine), worker: newWorker(p.Pipeline)}
	s.handler = s.routes()
	return s, nil
}

// loopback reports whether host names this machine only; a name that must be resolved, other than localhost, does not count.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Handler returns the routes, for tests and for mounting.
func (s *Server) Handler() http.Handler { return s.handler }

// drainTime bounds how long answers under way may take to finish after the server was asked to stop.
const drainTime = 30 * time.Second

// Serve listens until ctx ends, then stops taking requests, lets those under way finish, and returns. ready is told the address.
func (s *Server) Serve(ctx context.Context, ready func(address string)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return fmt.Errorf("server: listen on %s: %w; choose another address with --listen", s.config.Listen, err)
	}
	// No WriteTimeout: an answer streams for as long as it takes; each write has its own deadline (see stream).
	hs := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	var working sync.WaitGroup
	working.Go(func() { s.work(ctx) })
	defer working.Wait()
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(listener) }()
	ready(listener.Addr().String())
	select {
	case err := <-ended:
		return fmt.Errorf("server: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.log.Info("stopping", "drain_s", drainTime.Seconds())
	grace, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := hs.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("server: requests were still running after %s", drainTime), hs.Close())
	}
	return nil
}

// routes is the table of everything that is served.
func (s *Server) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(s.identify, s.recover, s.secure, s.limitBody)
	r.GET("/livez", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") })
	r.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") })
	r.GET("/readyz", s.ready)

	api := r.Group("/", s.authorize)
	api.GET("/metrics", s.metrics.serve)
	v1 := api.Group("/v1", s.metrics.observe)
	v1.POST("/ask", s.ask)
	v1.POST("/search", s.search)
	v1.GET("/corpora", s.corpora)
	v1.GET("/documents", s.documents)
	v1.POST("/documents", s.upload)
	v1.GET("/documents/:id", s.document)
	v1.DELETE("/documents/:id", s.deleteDocument)
	v1.GET("/passages/:id", s.passage)
	v1.GET("/models", s.models)
	v1.POST("/chat/completions", s.chatCompletions)
	v1.POST("/embeddings", s.embeddings)

	files := http.FileServerFS(web.Files())
	r.NoRoute(func(c *gin.Context) {
		if c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead || strings.HasPrefix(c.Request.URL.Path, "/v1/") {
			s.fail(c, &badRequest{status: http.StatusNotFound, code: "not_found", message: "there is no route " + c.Request.Method + " " + c.Request.URL.Path})
			return
		}
		files.ServeHTTP(c.Writer, c.Request)
	})
	r.NoMethod(func(c *gin.Context) {
		s.fail(c, &badRequest{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: c.Request.Method + " is not a method of " + c.Request.URL.Path})
	})
	return r
}

const requestIDKey = "ragd.request_id"

// identify gives each request an id; a client's own is kept when it is short and plain.
func (s *Server) identify(c *gin.Context) {
	id := c.GetHeader("X-Request-Id")
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' }) {
		id = uuid.NewString()
	}
	c.Set(requestIDKey, id)
	c.Header("X-Request-Id", id)
}

func requestID(c *gin.Context) string { return c.GetString(requestIDKey) }

// recover turns a panic, which is a bug of ours, into a 500 for one client.
func (s *Server) recover(c *gin.Context) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic", "request_id", requestID(c), "route", c.FullPath(), "panic", fmt.Sprint(v))
			if !c.Writer.Written() {
				s.fail(c, fmt.Errorf("server: panic: %v", v))
			}
		}
	}()
	c.Next()
}

// secure sets the headers that keep the page to itself, and refuses requests that a foreign page sends from a user's browser.
func (s *Server) secure(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	// Without a key the only protection of a loopback server is that other sites cannot reach it: neither through a form, nor by DNS rebinding.
	if s.config.APIKey == "" {
		host := c.Request.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !loopback(strings.Trim(host, "[]")) {
			s.fail(c, &badRequest{status: http.StatusForbidden, code: "forbidden_host", message: "this server answers to loopback names only; set an API key to use another"})
			return
		}
		if site := c.GetHeader("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			s.fail(c, &badRequest{status: http.StatusForbidden, code: "cross_site", message: "requests from other sites are refused; set an API key to allow programs on other hosts"})
			return
		}
	}
}

// bodyLimit bounds JSON bodies; uploads have their own.
const bodyLimit = 4 << 20

func (s *Server) limitBody(c *gin.Context) {
	limit := int64(bodyLimit)
	if c.Request.Method == http.MethodPost && c.FullPath() == "/v1/documents" {
		limit = s.config.UploadBytes
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, limit)
}

// authorize lets a request pass that carries the key, or any when there is none.
func (s *Server) authorize(c *gin.Context) {
	if s.config.APIKey == "" {
		return
	}
	token, _ := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	sent := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sent[:], s.keyHash[:]) != 1 {
		c.Header("WWW-Authenticate", "Bearer")
		s.fail(c, &badRequest{status: http.StatusUnauthorized, code: "invalid_api_key", message: "send the server's API key as Authorization: Bearer KEY"})
	}
}

// tenant owns what a request may see. One key serves one tenant.
func (s *Server) tenant(*gin.Context) string { return "" }

// ready reports whether requests would succeed now; ?verbose names each part.
func (s *Server) ready(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), 2*time.Second)
	defer cancel()
	checks := []struct {
		name string
		err  error
	}{
		{"postgres", s.Library.Ping(ctx)},
		{"engine", nil},
		{"accepting", nil},
	}
	if !s.Engine.Healthy() {
		checks[1].err = errors.New("the engine refuses requests; restart ragd")
	}
	if s.draining.Load() {
		checks[2].err = errors.New("the server is stopping")
	}
	status, text := http.StatusOK, ""
	for _, check := range checks {
		if check.err != nil {
			status = http.StatusServiceUnavailable
			text += fmt.Sprintf("[-]%s %v\n", check.name, check.err)
			continue
		}
		text += fmt.Sprintf("[+]%s ok\n", check.name)
	}
	if _, verbose := c.GetQuery("verbose"); !verbose && status == http.StatusOK {
		text = "ok\n"
	}
	c.String(status, text)
}
