package server

import (
	"context"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ragd/answer"
	"ragd/llm"
	"ragd/store"
)

// metrics are what /metrics shows. Each server has its own registry, so that tests can run several.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	answers    *prometheus.CounterVec
	firstToken prometheus.Histogram
	perToken   prometheus.Histogram
	queued     prometheus.Histogram
	tokens     *prometheus.CounterVec
	retrieval  *prometheus.HistogramVec
}

// seconds are bucket bounds from a cache hit to a long answer on a slow machine.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80}

func newMetrics(engine *llm.Engine, version string, waiting func(context.Context) ([]store.Waiting, error)) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ragd_http_requests_total", Help: "Requests by route and status."}, []string{"route", "status"}),
		latency:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ragd_http_request_duration_seconds", Help: "Time of a request by route.", Buckets: seconds}, []string{"route"}),
		answers:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ragd_answers_total", Help: "Answers by outcome: answered or abstained."}, []string{"outcome"}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ragd_first_token_seconds", Help: "From the question to the first generated token.", Buckets: seconds}),
		perToken: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ragd_token_seconds", Help: "Time per generated token, mean of one answer.",
			Buckets: []float64{.001, .0025, .005, .01, .02, .04, .08, .16, .32, .64, 1.28}}),
		queued:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ragd_queue_seconds", Help: "Time that a request waited for the engine.", Buckets: seconds}),
		tokens:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ragd_tokens_total", Help: "Tokens by kind: prompt, cached or output."}, []string{"kind"}),
		retrieval: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ragd_retrieval_seconds", Help: "Time of each part of retrieval.", Buckets: seconds}, []string{"part"}),
	}
	m.registry.MustRegister(m.requests, m.latency, m.answers, m.firstToken, m.perToken, m.queued, m.tokens, m.retrieval,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(engineGauges(engine)...)
	m.registry.MustRegister(backlog{waiting})
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ragd_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "model": engine.Name()}}, func() float64 { return 1 }))
	return m
}

func engineGauges(engine *llm.Engine) []prometheus.Collector {
	gauge := func(name, help string, value func(llm.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(engine.Stats()) })
	}
	counter := func(name, help string, value func(llm.Stats) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(engine.Stats())) })
	}
	return []prometheus.Collector{
		gauge("ragd_engine_running", "Sequences being prefilled or decoded.", func(s llm.Stats) float64 { return float64(s.Running) }),
		gauge("ragd_engine_waiting", "Requests in the queue.", func(s llm.Stats) float64 { return float64(s.Waiting) }),
		gauge("ragd_kv_pages", "Pages of the key/value cache.", func(s llm.Stats) float64 { return float64(s.Pages) }),
		gauge("ragd_kv_pages_free", "Pages that hold nothing.", func(s llm.Stats) float64 { return float64(s.FreePages) }),
		counter("ragd_prefix_tokens_seen_total", "Prompt tokens looked up in the prefix cache.", func(s llm.Stats) int64 { return s.PromptTokensSeen }),
		counter("ragd_prefix_tokens_found_total", "Prompt tokens found in the prefix cache.", func(s llm.Stats) int64 { return s.PromptTokensFound }),
		counter("ragd_preemptions_total", "Sequences that lost their pages to others for a while.", func(s llm.Stats) int64 { return s.Preemptions }),
		counter("ragd_cancelled_total", "Generations that were cancelled.", func(s llm.Stats) int64 { return s.Cancelled }),
		gauge("ragd_kv_pages_cached", "Pages that hold prefixes for reuse.", func(s llm.Stats) float64 { return float64(s.CachedPages) }),
	}
}

// backlog asks the database, when metrics are read, what waits to be ingested, in all processes. While it cannot be asked there are no values.
type backlog struct {
	waiting func(context.Context) ([]store.Waiting, error)
}

var (
	backlogSize = prometheus.NewDesc("ragd_ingest_waiting", "Versions of documents that wait to be ingested or are being worked on.", nil, nil)
	backlogAge  = prometheus.NewDesc("ragd_ingest_lag_seconds", "How long the oldest of them has waited.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (backlog) Describe(out chan<- *prometheus.Desc) { out <- backlogSize; out <- backlogAge }

// Collect implements [prometheus.Collector].
func (b backlog) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	all, err := b.waiting(ctx)
	if err != nil {
		return
	}
	size, age := int64(0), time.Duration(0)
	for _, w := range all {
		size += w.Versions
		age = max(age, time.Since(w.Oldest))
	}
	out <- prometheus.MustNewConstMetric(backlogSize, prometheus.GaugeValue, float64(size))
	out <- prometheus.MustNewConstMetric(backlogAge, prometheus.GaugeValue, age.Seconds())
}

// observe counts and times one request of the API.
func (m *metrics) observe(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}

// used counts what the engine did for one request.
func (m *metrics) used(u llm.Usage) {
	for kind, n := range map[string]int{"prompt": u.PromptTokens, "cached": u.CachedTokens, "output": u.OutputTokens} {
		m.tokens.WithLabelValues(kind).Add(float64(n))
	}
	if u.OutputTokens > 1 {
		m.perToken.Observe(u.Decode.Seconds() / float64(u.OutputTokens))
	}
	if u.OutputTokens > 0 {
		m.queued.Observe(u.Queue.Seconds())
	}
}

func (m *metrics) answered(a *answer.Answer) {
	outcome := "answered"
	if a.Abstained {
		outcome = "abstained"
	}
	m.answers.WithLabelValues(outcome).Inc()
	if a.FirstToken > 0 {
		m.firstToken.Observe(a.FirstToken.Seconds())
	}
	m.used(a.Usage)
	for part, d := range map[string]time.Duration{
		"embed": a.Retrieval.Embed, "dense": a.Retrieval.Dense, "lexical": a.Retrieval.Lexical, "fetch": a.Retrieval.Fetch, "rerank": a.Retrieval.Rerank,
	} {
		m.retrieval.WithLabelValues(part).Observe(d.Seconds())
	}
}

func (m *metrics) serve(c *gin.Context) {
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(c.Writer, c.Request)
}
