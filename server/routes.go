package server

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ragd/login"
	"ragd/web"
)

func init() { gin.SetMode(gin.ReleaseMode) } // gin keeps its mode in a global; set before any goroutine runs

//go:embed openapi.yaml
var openAPI []byte

// routes is the table of everything that is served; openapi.yaml describes the same.
func (s *Server) routes() http.Handler {
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false // a redirected POST loses its body in some clients
	r.Use(s.identify, s.observe, s.traced, s.recover, s.secure, s.patience)
	ok := func(c *gin.Context) { c.String(http.StatusOK, "ok\n") }
	description := func(c *gin.Context) { c.Data(http.StatusOK, "application/yaml; charset=utf-8", openAPI) }
	for path, handler := range map[string]gin.HandlerFunc{"/livez": ok, "/healthz": ok, "/readyz": s.ready, "/openapi.yaml": description} {
		r.GET(path, handler)
		r.HEAD(path, handler)
	}
	r.GET("/metrics", s.local, s.authorize, s.may(Admin), s.operator, s.metrics.serve)

	r.GET("/login", s.fewLogins, s.signIn)
	r.GET(login.CallbackPath, s.fewLogins, s.signedIn)
	r.POST("/login/out", s.local, s.authorize, s.admit, s.signOut)
	r.POST("/mcp", s.local, s.authorize, s.admit, s.may(Read), s.paced, s.timed, s.mcpHandler())

	v1 := r.Group("/v1", s.local, s.authorize, s.admit)
	v1.GET("/key", s.whoami)
	read := v1.Group("", s.may(Read))
	compute := read.Group("", s.paced, s.timed)
	compute.POST("/ask", s.ask)
	compute.POST("/search", s.search)
	compute.POST("/rerank", s.rerank)
	compute.POST("/chat/completions", s.chatCompletions)
	compute.POST("/embeddings", s.embeddings)
	compute.POST("/responses", s.responses)
	compute.POST("/vector_stores/:id/search", s.searchStore)
	read.GET("/corpora", s.corpora)
	read.GET("/documents", s.documents)
	read.GET("/documents/:id", s.document)
	read.GET("/jobs", s.jobs)
	read.GET("/documents/:id/pages/:page", s.pageImage)
	read.GET("/documents/:id/boxes", s.boxes)
	read.GET("/passages/:id", s.passage)
	read.GET("/answers/:id", s.inspect)
	read.POST("/answers/:id/feedback", s.giveFeedback)
	read.GET("/feedback", s.feedback)
	read.GET("/models", s.models)
	write := v1.Group("", s.may(Write))
	write.POST("/documents", s.upload)
	write.POST("/documents/:id/retry", s.retry)
	write.POST("/documents/:id/cancel", s.cancel)
	tus := write.Group("/uploads", s.tus)
	tus.OPTIONS("", s.tusOptions)
	tus.POST("", s.tusCreate)
	tus.HEAD("/:id", s.tusHead)
	tus.PATCH("/:id", s.tusPatch)
	tus.DELETE("/:id", s.tusDelete)
	write.DELETE("/documents/:id", s.deleteDocument)
	write.POST("/corpora", s.createCorpus)
	write.DELETE("/corpora/:name", s.deleteCorpus)
	read.GET("/vector_stores", s.stores)
	read.GET("/vector_stores/:id", s.vectorStore)
	read.GET("/vector_stores/:id/files", s.storeFiles)
	read.GET("/vector_stores/:id/files/:file", s.storeFile)
	write.POST("/vector_stores", s.createStore)
	write.DELETE("/vector_stores/:id", s.deleteStore)
	write.POST("/vector_stores/:id/files", s.tenantWide, s.addStoreFile)
	write.DELETE("/vector_stores/:id/files/:file", s.removeStoreFile)
	read.GET("/files", s.tenantWide, s.files)
	read.GET("/files/:id", s.tenantWide, s.file)
	read.GET("/files/:id/content", s.tenantWide, s.fileContent)
	write.POST("/files", s.tenantWide, s.createFile)
	write.DELETE("/files/:id", s.tenantWide, s.deleteFile)
	admin := v1.Group("", s.may(Admin), s.haveKeys)
	admin.GET("/keys", s.keys)
	admin.POST("/keys", s.createKey)
	admin.POST("/keys/:id/rotate", s.rotateKey)
	admin.DELETE("/keys/:id", s.revokeKey)
	admin.GET("/audit", s.tenantWide, s.auditLog)

	static := http.FileServerFS(web.Files())
	r.NoRoute(func(c *gin.Context) {
		method, path := c.Request.Method, c.Request.URL.Path
		if method != http.MethodGet && method != http.MethodHead || strings.HasPrefix(path, "/v1/") {
			s.fail(c, &badRequest{status: http.StatusNotFound, code: "not_found", message: "there is no route " + method + " " + path})
			return
		}
		c.Header("Cache-Control", "no-cache") // the page changes with the binary
		static.ServeHTTP(c.Writer, c.Request)
	})
	r.NoMethod(func(c *gin.Context) { // gin has set Allow
		if c.Request.Method == http.MethodOptions {
			c.AbortWithStatus(http.StatusNoContent)
			return
		}
		s.fail(c, &badRequest{status: http.StatusMethodNotAllowed, code: "method_not_allowed",
			message: c.Request.Method + " is not a method of " + c.Request.URL.Path + "; it takes " + c.Writer.Header().Get("Allow")})
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
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint // a sentinel that is panicked with, never wrapped
			panic(v)
		}
		s.log.Error("panic", "request_id", requestID(c), "route", c.FullPath(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // cut the connection: the client must not take half a response for a whole one
		}
		s.fail(c, fmt.Errorf("server: panic: %v", v))
	}()
	c.Next()
}

// secure sets the headers that keep the page to itself.
func (s *Server) secure(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	if strings.HasPrefix(c.Request.URL.Path, "/v1/") {
		h.Set("Cache-Control", "no-store") // documents do not belong in a browser's cache
	}
}

// local guards a server that needs no key. All that protects it is that other sites cannot reach it from a user's browser: neither by a form or script
// (Sec-Fetch-Site, Origin) nor by a name of theirs that resolves to this machine (Host).
func (s *Server) local(c *gin.Context) {
	if s.config.APIKey != "" || s.config.NeedKey {
		return
	}
	host := c.Request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if !loopback(strings.Trim(host, "[]")) {
		s.fail(c, &badRequest{status: http.StatusForbidden, code: "forbidden_host", message: "this server answers to loopback names only; set an API key to use another"})
		return
	}
	site := c.GetHeader("Sec-Fetch-Site")
	origin, err := url.Parse(c.GetHeader("Origin"))
	foreign := err != nil || origin.Host != "" && origin.Host != c.Request.Host || c.GetHeader("Origin") == "null"
	if site == "cross-site" || site == "same-site" || foreign {
		s.fail(c, &badRequest{status: http.StatusForbidden, code: "cross_site", message: "requests from other sites are refused; set an API key to allow programs on other hosts"})
	}
}

// bodyLimit bounds JSON bodies; uploads have their own.
const bodyLimit = 4 << 20

// bodyPatience is how often the time of one read a whole JSON body may take: who sends it byte by byte must not keep a place of the gate for ever.
const bodyPatience = 4

// patience bounds a request's body in size and each read of it in time, and takes back the deadline that an earlier request left on the connection.
func (s *Server) patience(c *gin.Context) {
	control := http.NewResponseController(c.Writer)
	// A writer without deadlines (a test recorder) does without.
	_ = control.SetWriteDeadline(time.Time{})
	if c.Request.ContentLength != 0 { // a body that no handler reads is skipped by net/http
		_ = control.SetReadDeadline(time.Now().Add(s.config.ReadTimeout))
	}
	limit, until := int64(bodyLimit), time.Now().Add(bodyPatience*s.config.ReadTimeout)
	if c.Request.Method == http.MethodPost && (c.FullPath() == "/v1/documents" || c.FullPath() == "/v1/files") || c.Request.Method == http.MethodPatch {
		limit, until = s.config.UploadBytes, time.Time{}
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, &patientBody{ReadCloser: c.Request.Body, control: control, timeout: s.config.ReadTimeout, until: until}, limit)
}

// patientBody gives each read a deadline of its own.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration
	until   time.Time // of all reads; zero: uploads take as long as they take
}

func (b *patientBody) Read(p []byte) (int, error) {
	deadline := time.Now().Add(b.timeout)
	if !b.until.IsZero() && deadline.After(b.until) {
		deadline = b.until
	}
	_ = b.control.SetReadDeadline(deadline)
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		// Behind the body net/http goes on reading, to notice when the client leaves; a deadline left there would look like that. After a timeout the
		// deadline stays, so that net/http does not wait for the rest of the body in its turn.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// admit passes a request through the gate.
func (s *Server) admit(c *gin.Context) {
	if err := s.gate.enter(); err != nil {
		s.fail(c, err)
		return
	}
	defer s.gate.leave()
	c.Next()
}

// timed ends a request that computes for longer than one may.
func (s *Server) timed(c *gin.Context) {
	whole := c.Request
	ctx, cancel := context.WithTimeout(whole.Context(), s.config.RequestTime)
	defer func() {
		cancel()
		c.Request = whole // a panic is answered later: the client of this request has not left
	}()
	c.Request = whole.WithContext(ctx)
	c.Next()
}

// left reports whether the client of c closed the connection, which ends the request's context as a time limit does.
func left(c *gin.Context) bool { return errors.Is(c.Request.Context().Err(), context.Canceled) }

// observe counts, times and logs the requests of the API.
func (s *Server) observe(c *gin.Context) {
	started := time.Now()
	c.Next()
	if !strings.HasPrefix(c.FullPath(), "/v1/") {
		return
	}
	took, status := time.Since(started), c.Writer.Status()
	s.metrics.observe(c.FullPath(), status, took)
	s.log.Info("request", "request_id", requestID(c), "method", c.Request.Method, "route", c.FullPath(), "status", status, "ms", milliseconds(took))
}

// engineGone is what to do when nothing writes answers.
func (s *Server) engineGone() string {
	if s.Engine.External() != "" {
		return "the external engine does not answer"
	}
	return "stopped; restart ragd"
}

// ready reports whether requests would succeed now; ?verbose names each part. It tells strangers no more than that.
func (s *Server) ready(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), 2*time.Second)
	defer cancel()
	running, limit, closed := s.gate.load()
	load := s.Engine.Stats()
	checks := []struct {
		name, state string
		ok          bool
	}{
		{"postgres", "cannot be reached", s.Library.Ping(ctx) == nil},
		{"engine", s.engineGone(), s.Engine.Healthy()},
		{"accepting", "the server is stopping", !closed},
	}
	if checks[1].ok {
		checks[1].state = fmt.Sprintf("running=%d waiting=%d", load.Running, load.Waiting)
	}
	if !closed {
		checks[2].state = fmt.Sprintf("requests=%d of %d", running, limit)
	}
	status, text := http.StatusOK, ""
	for _, check := range checks {
		switch {
		case !check.ok:
			status = http.StatusServiceUnavailable
			text += fmt.Sprintf("[-]%s failed: %s\n", check.name, check.state)
		case check.name == "postgres":
			text += "[+]postgres ok\n"
		default:
			text += fmt.Sprintf("[+]%s ok: %s\n", check.name, check.state)
		}
	}
	if _, verbose := c.GetQuery("verbose"); !verbose && status == http.StatusOK {
		text = "ok\n"
	}
	c.String(status, text)
}
