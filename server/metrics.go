package server

import (
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ragd/answer"
	"ragd/llm"
)

// metrics are what /metrics shows. Each server has its own registry, so that tests can run several.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	answers    *prometheus.CounterVec
	firstToken prometheus.Histogram
	tokens     *prometheus.CounterVec
	retrieval  *prometheus.HistogramVec
}

// seconds are bucket bounds from a cache hit to a long answer on a slow machine.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80}

func newMetrics(engine *llm.Engine) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ragd_http_requests_total", Help: "Requests by route and status."}, []string{"route", "status"}),
		latency:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ragd_http_request_seconds", Help: "Time of a request by route.", Buckets: seconds}, []string{"route"}),
		answers:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ragd_answers_total", Help: "Answers by outcome: answered or abstained."}, []string{"outcome"}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ragd_first_token_seconds", Help: "From the question to the first generated token.", Buckets: seconds}),
		tokens:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ragd_tokens_total", Help: "Tokens by kind: prompt, cached or output."}, []string{"kind"}),
		retrieval: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ragd_retrieval_seconds", Help: "Time of each part of retrieval.", Buckets: seconds}, []string{"part"}),
	}
	m.registry.MustRegister(m.requests, m.latency, m.answers, m.firstToken, m.tokens, m.retrieval,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if engine != nil {
		m.registry.MustRegister(engineGauges(engine)...)
	}
	return m
}

func engineGauges(engine *llm.Engine) []prometheus.Collector {
	gauge := func(name, help string, value func(llm.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(engine.Stats()) })
	}
	return []prometheus.Collector{
		gauge("ragd_engine_running", "Sequences being prefilled or decoded.", func(s llm.Stats) float64 { return float64(s.Running) }),
		gauge("ragd_engine_waiting", "Requests in the queue.", func(s llm.Stats) float64 { return float64(s.Waiting) }),
		gauge("ragd_kv_pages", "Pages of the key/value cache.", func(s llm.Stats) float64 { return float64(s.Pages) }),
		gauge("ragd_kv_pages_free", "Pages that hold nothing.", func(s llm.Stats) float64 { return float64(s.FreePages) }),
		gauge("ragd_kv_pages_cached", "Pages that hold prefixes for reuse.", func(s llm.Stats) float64 { return float64(s.CachedPages) }),
	}
}

// observe counts and times the requests of the API.
func (m *metrics) observe(c *gin.Context) {
	started := time.Now()
	c.Next()
	m.requests.WithLabelValues(c.FullPath(), strconv.Itoa(c.Writer.Status())).Inc()
	m.latency.WithLabelValues(c.FullPath()).Observe(time.Since(started).Seconds())
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
	for kind, n := range map[string]int{"prompt": a.Usage.PromptTokens, "cached": a.Usage.CachedTokens, "output": a.Usage.OutputTokens} {
		m.tokens.WithLabelValues(kind).Add(float64(n))
	}
	for part, d := range map[string]time.Duration{
		"embed": a.Retrieval.Embed, "dense": a.Retrieval.Dense, "lexical": a.Retrieval.Lexical, "fetch": a.Retrieval.Fetch, "rerank": a.Retrieval.Rerank,
	} {
		m.retrieval.WithLabelValues(part).Observe(d.Seconds())
	}
}

func (m *metrics) serve(c *gin.Context) {
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(c.Writer, c.Request)
}
