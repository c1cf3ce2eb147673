package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ragd/answer"
	"ragd/retrieve"
	"ragd/store"
)

// toolbox is what a client of the Model Context Protocol may call, on behalf of one key.
type toolbox struct {
	server *Server
	key    store.Key
}

type (
	searchInput struct {
		Query   string   `json:"query" jsonschema:"what to look for, in the words of the documents"`
		Corpora []string `json:"corpora,omitempty" jsonschema:"search only these collections; all when absent"`
		Limit   int      `json:"limit,omitempty" jsonschema:"passages to return, 1 to 20; 5 when absent"`
	}
	searchOutput struct {
		Passages []foundPassage `json:"passages"`
	}
	foundPassage struct {
		ID     int64  `json:"passage_id"`
		Corpus string `json:"corpus"`
		Path   string `json:"path"`
		Title  string `json:"title"`
		Page   int    `json:"page,omitempty"`
		Text   string `json:"text"`
	}
	readInput struct {
		PassageID int64 `json:"passage_id" jsonschema:"from search or from a citation of ask"`
	}
	readOutput struct {
		foundPassage
		Before string `json:"before" jsonschema:"what stands in front of the passage"`
		After  string `json:"after"`
	}
	askInput struct {
		Question string   `json:"question" jsonschema:"a whole question, understandable without what was said before"`
		Corpora  []string `json:"corpora,omitempty" jsonschema:"answer only from these collections; all when absent"`
	}
	askOutput struct {
		Answer    string          `json:"answer" jsonschema:"with markers [1] behind what a citation supports"`
		Abstained bool            `json:"abstained" jsonschema:"the documents hold no answer"`
		Citations []toolCitations `json:"citations"`
	}
	toolCitations struct {
		Marker    int    `json:"marker"`
		PassageID int64  `json:"passage_id"`
		Corpus    string `json:"corpus"`
		Path      string `json:"path"`
		Page      int    `json:"page,omitempty"`
		Quote     string `json:"quote" jsonschema:"the document's own text"`
		Doubtful  bool   `json:"doubtful,omitempty" jsonschema:"the quote may not say what it is cited for: read it"`
	}
)

// toolSchemas keeps the schemas of the tools: a server is made for each request.
var toolSchemas = mcp.NewSchemaCache()

// mcpServer returns the server that a key's client talks to.
func (s *Server) mcpServer(k store.Key) *mcp.Server {
	out := mcp.NewServer(&mcp.Implementation{Name: "ragd", Version: s.config.Version}, &mcp.ServerOptions{
		SchemaCache:  toolSchemas,
		Instructions: "Private documents. Use ask for a question that needs an answer with citations, search to see passages, read for the text around a passage.",
	})
	t := toolbox{server: s, key: k}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	mcp.AddTool(out, &mcp.Tool{Name: "search", Description: "Find the passages of the private documents that fit a query best.", Annotations: readOnly}, t.search)
	mcp.AddTool(out, &mcp.Tool{Name: "read", Description: "Read a passage between what stands around it in its document.", Annotations: readOnly}, t.read)
	mcp.AddTool(out, &mcp.Tool{Name: "ask", Description: "Answer a question from the private documents, with quotes of the sources; says so when they hold no answer.", Annotations: readOnly}, t.ask)
	return out
}

// mcpHandler is POST /mcp, the streamable HTTP transport without sessions: every request stands for itself, so any process can answer it.
func (s *Server) mcpHandler() gin.HandlerFunc {
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		k, _ := r.Context().Value(mcpKey{}).(store.Key)
		return s.mcpServer(k)
	}, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true}) // local has checked the host's name
	return func(c *gin.Context) {
		ctx := context.WithValue(c.Request.Context(), mcpKey{}, caller(c))
		handler.ServeHTTP(c.Writer, c.Request.WithContext(ctx))
	}
}

type mcpKey struct{}

// ServeMCP answers a client on standard input and output until it leaves or ctx ends, with everything permitted: whoever can start the process can read
// its documents.
func (s *Server) ServeMCP(ctx context.Context) error {
	if err := s.mcpServer(serversOwn).Run(ctx, &mcp.StdioTransport{}); err != nil && ctx.Err() == nil {
		return fmt.Errorf("server: MCP: %w", err)
	}
	return nil
}

// filter admits the corpora that a call asks for, of those that the key may see.
func (t toolbox) filter(corpora []string) (retrieve.Filter, error) {
	corpora, err := reachOf(t.key, corpora)
	return retrieve.Filter{Tenant: t.key.Tenant, Corpora: corpora}, err
}

// failed is what a model is told about err: what it can change, or that it cannot.
func (t toolbox) failed(err error) error {
	status, detail := describe(err, "")
	if status >= 500 {
		t.server.log.Error("MCP call failed", "error", err)
		return errors.New("internal error; the server's log has more")
	}
	return errors.New(detail.Message)
}

func (t toolbox) search(ctx context.Context, _ *mcp.CallToolRequest, in searchInput) (*mcp.CallToolResult, searchOutput, error) {
	out := searchOutput{Passages: []foundPassage{}}
	if strings.TrimSpace(in.Query) == "" || in.Limit < 0 || in.Limit > 20 {
		return nil, out, errors.New("query must not be empty, and limit must be between 1 and 20")
	}
	if in.Limit == 0 {
		in.Limit = 5
	}
	f, err := t.filter(in.Corpora)
	if err != nil {
		return nil, out, t.failed(err)
	}
	found, err := t.server.Retriever.Retrieve(store.As(ctx, t.key.Tenant), in.Query, f, in.Limit)
	if err != nil {
		return nil, out, t.failed(err)
	}
	for _, r := range found.Ranked {
		out.Passages = append(out.Passages, foundOf(r.Passage))
	}
	return nil, out, nil
}

func foundOf(p retrieve.Passage) foundPassage {
	return foundPassage{ID: int64(p.ID), Corpus: p.Corpus, Path: p.Path, Title: p.Title, Page: p.Page, Text: p.Text}
}

func (t toolbox) read(ctx context.Context, _ *mcp.CallToolRequest, in readInput) (*mcp.CallToolResult, readOutput, error) {
	f, err := t.filter(nil)
	if err != nil {
		return nil, readOutput{}, t.failed(err)
	}
	e, err := t.server.Library.Excerpt(store.As(ctx, t.key.Tenant), retrieve.PassageID(in.PassageID), margin, f)
	if err != nil {
		return nil, readOutput{}, t.failed(err)
	}
	start, end := e.Start-e.AroundStart, e.End-e.AroundStart
	return nil, readOutput{foundPassage: foundOf(e.Passage), Before: e.Around[:start], After: e.Around[end:]}, nil
}

func (t toolbox) ask(ctx context.Context, _ *mcp.CallToolRequest, in askInput) (*mcp.CallToolResult, askOutput, error) {
	out := askOutput{Citations: []toolCitations{}}
	q := answer.Question{Text: in.Question, Namespace: t.key.Tenant}
	var err error
	if q.Filter, err = t.filter(in.Corpora); err != nil {
		return nil, out, t.failed(err)
	}
	for event, err := range t.server.Answerer.Answer(store.As(ctx, t.key.Tenant), q) {
		if err != nil {
			return nil, out, t.failed(err)
		}
		if a := event.Done; a != nil {
			t.server.metrics.answered(a)
			t.server.tracer.answered(ctx, a)
			t.server.keep(ctx, t.key.Tenant, a)
			t.server.charge(ctx, t.key, a.Usage.PromptTokens+a.Usage.OutputTokens)
			out.Answer, out.Abstained = a.Text, a.Abstained
			for _, c := range a.Citations {
				out.Citations = append(out.Citations, toolCitations{Marker: c.Marker, PassageID: int64(c.Passage), Corpus: c.Corpus, Path: c.Path, Page: c.Page, Quote: c.Quote, Doubtful: a.Doubts(&c)})
			}
		}
	}
	return nil, out, nil
}

// reachOf narrows corpora, which a request asks for, to those that a key may see. No corpora are all of them.
func reachOf(k store.Key, corpora []string) ([]string, error) {
	if len(k.Corpora) == 0 {
		return corpora, nil
	}
	for _, name := range corpora {
		if !slices.Contains(k.Corpora, name) {
			return nil, fmt.Errorf("there is no corpus %q that this key may see: %w", name, errNoCorpus)
		}
	}
	if len(corpora) == 0 {
		corpora = k.Corpora
	}
	return corpora, nil
}
