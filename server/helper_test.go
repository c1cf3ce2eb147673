package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ragd/answer"
	"ragd/embed"
	"ragd/ingest"
	"ragd/llm"
	"ragd/llm/gguf"
	"ragd/retrieve"
	"ragd/server"
	"ragd/store"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.close != nil {
		browser.close()
	}
	if shared.engine != nil {
		_ = shared.engine.Close()
		_ = os.RemoveAll(shared.dir)
	}
	if code == 0 {
		// The database of internal/pgtest runs until the process ends, and longer when others use it.
		if err := goleak.Find(goleak.IgnoreAnyFunction("ragd/store/localpg.(*Cluster).watch"), goleak.IgnoreAnyFunction("ragd/store/localpg.(*Cluster).launch.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is the engine of all tests that do not stop theirs: a real one, over a model of random weights.
var shared struct {
	once   sync.Once
	engine *llm.Engine
	dir    string
	err    error
}

func testEngine(t testing.TB) *llm.Engine {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "ragd-server-test-"); shared.err == nil {
			shared.engine, shared.err = openEngine(shared.dir)
		}
	})
	require.NoError(t, shared.err)
	return shared.engine
}

const chatML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

// openEngine opens the tiny reference model, with a chat template, which its file lacks, and room for a prompt with passages.
func openEngine(dir string) (*llm.Engine, error) {
	f, err := gguf.Open("../llm/model/testdata/arch/llama.f32.gguf")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	path := filepath.Join(dir, "tiny.gguf")
	out, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	w := gguf.NewWriter(out, f.Architecture())
	w.SetString("tokenizer.chat_template", chatML)
	w.SetUint(f.Architecture()+".context_length", 4096)
	w.Copy(f)
	for _, tensor := range f.Tensors() {
		w.Declare(tensor.Name, tensor.Type, tensor.Shape...)
	}
	err = w.Begin()
	for _, tensor := range f.Tensors() {
		err = errors.Join(err, w.Write(tensor.Name, tensor.Data))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return llm.Open(path, llm.Config{Threads: 1})
}

// answerFunc is an Answerer in a function.
type answerFunc func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool)

func (f answerFunc) Answer(ctx context.Context, q answer.Question) iter.Seq2[answer.Event, error] {
	return func(yield func(answer.Event, error) bool) { f(ctx, q, yield) }
}

// failing is an Answerer that only fails.
func failing(err error) answerFunc {
	return func(_ context.Context, _ answer.Question, yield func(answer.Event, error) bool) {
		yield(answer.Event{}, err)
	}
}

// document is what the sample answer cites. The characters in front of the quote have one to four UTF-8 bytes, one or two UTF-16 units, and one of them
// is two code points that a reader sees as one.
const (
	sampleText  = "🏖️ Cafe\u0301 rules 🎉. Employees get 30 days of paid leave. 😀 Employees get 30 days of paid leave. Ask 人事部 for more."
	sampleQuote = "😀 Employees get 30 days of paid leave."
)

func samplePassage() retrieve.Passage {
	return retrieve.Passage{ID: 7, Document: 3, Corpus: "handbook", Path: "hr/leave.md", Title: "Leave", Heading: "Leave > Days", Text: sampleText, Start: 100, End: 100 + len(sampleText), Page: 2}
}

func sampleAnswer() *answer.Answer {
	p := samplePassage()
	at := strings.Index(sampleText, sampleQuote)
	text := "🎉 You get 30 days of leave [1]. Ask the 人事部 [1]. 😀 It is fun."
	fun := strings.Index(text, "😀 It is fun.")
	rerank, dense := float32(4.5), retrieve.Hit{ID: 7, Score: 0.8, Rank: 1}
	claim := "🎉 You get 30 days of leave"
	second := "Ask the 人事部"
	cite := func(claim string) answer.Citation {
		return answer.Citation{
			Marker: 1, Start: strings.Index(text, claim), End: strings.Index(text, claim) + len(claim), Passage: p.ID, Document: p.Document, Corpus: p.Corpus,
			Path: p.Path, Title: p.Title, Page: p.Page, SourceStart: p.Start + at, SourceEnd: p.Start + at + len(sampleQuote), Quote: sampleQuote, Support: 0.75,
		}
	}
	return &answer.Answer{
		Question: "How many days?", Query: "How many days?", Text: text,
		Sources:     []answer.Source{{Marker: 1, Scored: retrieve.Scored{Passage: p, Dense: &dense, Fused: 0.03, Rerank: &rerank}}},
		Citations:   []answer.Citation{cite(claim), cite(second)},
		Unsupported: []answer.Statement{{Start: fun, End: len(text)}},
		Doubtful:    []answer.Statement{{Start: strings.Index(text, second), End: strings.Index(text, second) + len(second)}},
		Budget:      answer.Budget{Context: 4096, System: 200, Passages: 900, Question: 20, Answer: 256},
		Usage:       llm.Usage{PromptTokens: 1100, CachedTokens: 200, OutputTokens: 16},
	}
}

// sample answers every question with sampleAnswer, in its pieces.
func sample(_ context.Context, q answer.Question, yield func(answer.Event, error) bool) {
	a := sampleAnswer()
	a.Question, a.Query = q.Text, q.Text
	events := []answer.Event{{Sources: a.Sources}}
	for _, piece := range strings.SplitAfter(a.Text, " ") {
		events = append(events, answer.Event{Text: piece})
	}
	events = append(events, answer.Event{Citation: &a.Citations[0]}, answer.Event{Citation: &a.Citations[1]}, answer.Event{Done: a})
	for _, e := range events {
		if !yield(e, nil) {
			return
		}
	}
}

// sampleWithAdded is sample with a second source, which the model did not read.
func sampleWithAdded(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
	sample(ctx, q, func(e answer.Event, err error) bool {
		if e.Done != nil {
			e.Done.Sources = append(e.Done.Sources, answer.Source{Marker: 2, Rank: 2, Added: true, Scored: retrieve.Scored{Passage: samplePassage()}})
		}
		return yield(e, err)
	})
}

// fakes are the parts of a server under test.
type fakes struct {
	receiving []*upload
	mu        sync.Mutex
	documents []store.Document
	corpora   []store.Corpus
	failure   error // of every call of the library
	outcome   ingest.Outcome
	refusal   error // of Add
	added     []ingest.Candidate
	ran       chan string // corpora that Run was called for
	searched  []retrieve.Filter
	questions []answer.Question
}

func (f *fakes) locked(fn func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil {
		return f.failure
	}
	return fn()
}

func (f *fakes) Ping(context.Context) error { return f.locked(func() error { return nil }) }

func (f *fakes) Corpora(_ context.Context, _ string, names ...string) (list []store.Corpus, err error) {
	err = f.locked(func() error {
		list = slices.DeleteFunc(slices.Clone(f.corpora), func(k store.Corpus) bool { return len(names) > 0 && !slices.Contains(names, k.Name) })
		return nil
	})
	return list, err
}

func (f *fakes) Waiting(context.Context) (list []store.Waiting, err error) {
	err = f.locked(func() error {
		for _, k := range f.corpora {
			if k.Waiting > 0 {
				list = append(list, store.Waiting{Tenant: store.DefaultTenant, Corpus: k.Name, Index: k.Index, Versions: k.Waiting})
			}
		}
		return nil
	})
	return list, err
}

func (f *fakes) Documents(_ context.Context, _ string, corpora []string, state ingest.State, after retrieve.DocumentID, limit int) (list []store.Document, err error) {
	err = f.locked(func() error {
		for _, d := range f.documents {
			if (len(corpora) == 0 || slices.Contains(corpora, d.Corpus)) && (state == "" || d.State == state) && d.ID > after && len(list) < limit {
				list = append(list, d)
			}
		}
		return nil
	})
	return list, err
}

func (f *fakes) find(match func(store.Document) bool) (d store.Document, err error) {
	err = f.locked(func() error {
		i := slices.IndexFunc(f.documents, match)
		if i < 0 {
			return fmt.Errorf("store: read document: %w", fmt.Errorf("document: %w", store.ErrNotFound))
		}
		d = f.documents[i]
		return nil
	})
	return d, err
}

func (f *fakes) DocumentByID(_ context.Context, _ string, id retrieve.DocumentID) (store.Document, error) {
	return f.find(func(d store.Document) bool { return d.ID == id })
}

func (f *fakes) DocumentByPath(_ context.Context, _, corpus, path string) (store.Document, error) {
	return f.find(func(d store.Document) bool { return d.Corpus == corpus && d.Path == path })
}

func (f *fakes) DeleteDocument(ctx context.Context, tenant string, id retrieve.DocumentID) error {
	if _, err := f.DocumentByID(ctx, tenant, id); err != nil {
		return err
	}
	return f.locked(func() error {
		f.documents = slices.DeleteFunc(f.documents, func(d store.Document) bool { return d.ID == id })
		return nil
	})
}

func (f *fakes) Original(_ context.Context, _ string, id retrieve.DocumentID) (store.Original, error) {
	d, err := f.find(func(d store.Document) bool { return d.ID == id })
	return store.Original{Corpus: d.Corpus, Kind: d.Kind}, err
}

func (f *fakes) CreateCorpus(_ context.Context, _, name string, index ingest.Index) error {
	return f.locked(func() error { f.corpora = append(f.corpora, store.Corpus{Name: name, Index: index}); return nil })
}

func (f *fakes) DeleteCorpus(_ context.Context, _, name string) error {
	return f.locked(func() error {
		before := len(f.corpora)
		f.corpora = slices.DeleteFunc(f.corpora, func(k store.Corpus) bool { return k.Name == name })
		if len(f.corpora) == before {
			return fmt.Errorf("store: delete corpus: %w", fmt.Errorf("corpus %q: %w", name, store.ErrNotFound))
		}
		return nil
	})
}

const sampleBefore, sampleAfter = "Before ☕. ", " After."

func (f *fakes) Excerpt(_ context.Context, id retrieve.PassageID, _ int, _ retrieve.Filter) (e store.Excerpt, err error) {
	err = f.locked(func() error {
		if id != 7 {
			return fmt.Errorf("store: read passage: %w", fmt.Errorf("passage %d: %w", id, store.ErrNotFound))
		}
		p := samplePassage()
		e = store.Excerpt{Passage: p, Around: sampleBefore + p.Text + sampleAfter, AroundStart: p.Start - len(sampleBefore), Live: true}
		return nil
	})
	return e, err
}

func (f *fakes) Index() ingest.Index { return ingest.Index{Model: "fake", Dim: 3, Splitter: "s"} }

// Add takes a whole upload; it returns the id of the document.
func (f *fakes) Add(_ context.Context, c ingest.Candidate, data []byte) (outcome ingest.Outcome, document int64, err error) {
	if f.refusal != nil {
		return 0, 0, f.refusal
	}
	c.Size = int64(len(data))
	err = f.locked(func() error {
		f.added = append(f.added, c)
		state := ingest.Received
		if f.outcome == ingest.Unchanged {
			state = ingest.Live
		}
		document = int64(len(f.added) + 10)
		f.documents = append(f.documents, store.Document{ID: retrieve.DocumentID(document), Corpus: c.Corpus, Path: c.Path, State: state, Size: c.Size, Live: state == ingest.Live})
		return nil
	})
	return f.outcome, document, err
}

func (f *fakes) Run(_ context.Context, _, corpus string, _ []string, _ func(ingest.Progress)) (ingest.Report, error) {
	err := f.locked(func() error {
		for i := range f.documents {
			if f.documents[i].Corpus == corpus && f.documents[i].State != ingest.Failed {
				f.documents[i].State, f.documents[i].Live, f.documents[i].Passages = ingest.Live, true, 3
			}
		}
		return nil
	})
	if f.ran != nil {
		f.ran <- corpus
	}
	return ingest.Report{Documents: 1}, err
}

func (f *fakes) Retrieve(_ context.Context, query string, filter retrieve.Filter, k int) (retrieve.Result, error) {
	f.mu.Lock()
	f.searched = append(f.searched, filter)
	f.mu.Unlock()
	if query == "missing corpus" {
		return retrieve.Result{}, fmt.Errorf("retrieve: dense leg: %w", fmt.Errorf("corpus %q: %w", "x", store.ErrNotFound))
	}
	lexical := retrieve.Hit{ID: 7, Score: 3.5, Rank: 1}
	ranked := []retrieve.Scored{{Passage: samplePassage(), Lexical: &lexical, Fused: 0.016}}
	return retrieve.Result{Ranked: ranked[:min(k, 1)]}, nil
}

func (f *fakes) Model() string { return "fake" }
func (f *fakes) Dim() int      { return 3 }
func (f *fakes) Tokens(text string) int {
	if len(text) > 1000 {
		return len(text) / 10
	}
	return 2
}
func (f *fakes) Embed(_ context.Context, role embed.Role, texts []string) ([]embed.Vector, error) {
	vectors := make([]embed.Vector, len(texts))
	for i := range texts {
		vectors[i] = embed.Vector{float32(role), 0.5, -1}
	}
	return vectors, nil
}

// Score is higher for longer texts.
func (f *fakes) Score(_ context.Context, _ string, texts []string) ([]float32, error) {
	scores := make([]float32, len(texts))
	for i, text := range texts {
		scores[i] = float32(len(text))
	}
	return scores, nil
}

// harness is a server over fakes, with a client that holds every JSON response against openapi.yaml.
type harness struct {
	*testing.T
	*fakes
	url    string
	client *http.Client
	server *server.Server
	header http.Header // sent with each request
	stop   func()      // of a server that listens by itself
}

func newParts(t testing.TB, answerer server.Answerer) (server.Parts, *fakes) {
	f := &fakes{}
	return server.Parts{Answerer: answerer, Retriever: f, Library: f, Uploads: f, Jobs: f, Pipeline: f, Embedder: f, Reranker: f, Engine: testEngine(t)}, f
}

func serve(t *testing.T, answerer answerFunc, c server.Config) *harness {
	t.Helper()
	parts, f := newParts(t, answerer)
	recording := answerFunc(func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		f.mu.Lock()
		f.questions = append(f.questions, q)
		f.mu.Unlock()
		answerer(ctx, q, yield)
	})
	parts.Answerer = recording
	return serveParts(t, parts, f, c)
}

func serveParts(t *testing.T, parts server.Parts, f *fakes, c server.Config) *harness {
	t.Helper()
	s, err := server.New(parts, c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return serveHandler(t, s, f)
}

func serveHandler(t *testing.T, s *server.Server, f *fakes) *harness {
	t.Helper()
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(ts.Close)
	return &harness{T: t, fakes: f, url: ts.URL, client: ts.Client(), server: s, header: http.Header{}}
}

// reply is a response whose body was read.
type reply struct {
	*http.Response
	body []byte
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal(r.body, &v), "%s", r.body)
	return v
}

// code is the error code of the body.
func (r reply) code(t *testing.T) string {
	t.Helper()
	detail, ok := r.json(t)["error"].(map[string]any)
	require.True(t, ok, "%s", r.body)
	return detail["code"].(string)
}

func (r reply) message(t *testing.T) string {
	t.Helper()
	return r.json(t)["error"].(map[string]any)["message"].(string)
}

func (h *harness) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	h.Helper()
	request, err := http.NewRequestWithContext(ctx, method, h.url+path, body)
	require.NoError(h.T, err)
	for name, values := range h.header {
		request.Header[name] = values
	}
	return request
}

func (h *harness) send(request *http.Request) reply {
	h.Helper()
	response, err := h.client.Do(request)
	require.NoError(h.T, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(h.T, err)
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		require.NoError(h.T, description(h.T).check(request.Method, request.URL.Path, response.StatusCode, body), "%s", body)
	}
	return reply{response, body}
}

func (h *harness) get(path string) reply {
	h.Helper()
	return h.send(h.request(h.Context(), http.MethodGet, path, nil))
}

func (h *harness) post(path string, body string) reply {
	h.Helper()
	request := h.request(h.Context(), http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return h.send(request)
}

// open starts a request whose body is read as it comes.
func (h *harness) open(ctx context.Context, path, body string) *http.Response {
	h.Helper()
	response, err := h.client.Do(h.request(ctx, http.MethodPost, path, strings.NewReader(body)))
	require.NoError(h.T, err)
	h.Cleanup(func() { response.Body.Close() })
	return response
}

// event is one record of an event stream; a ping is a record with only a comment.
type event struct{ id, name, data, comment string }

func (e event) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(e.data), &v), e.data)
	return v
}

func readEvents(r io.Reader) iter.Seq[event] {
	return func(yield func(event) bool) {
		var e event
		for lines := bufio.NewScanner(r); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "":
				if lines.Text() == "" {
					if !yield(e) {
						return
					}
					e = event{}
				} else {
					e.comment = value
				}
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data += value
			}
		}
	}
}

func parseEvents(body []byte) []event { return slices.Collect(readEvents(bytes.NewReader(body))) }
