package bench

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Plot draws rows as an SVG picture: prefill and decoding beside the peers, throughput against latency, and the roofline. It shows the rows with the most
// threads; rows of other instruction sets are bars of their own.
func Plot(rows []Row) []byte {
	p := &picture{rows: rows}
	for _, r := range rows {
		p.threads = max(p.threads, r.Threads)
	}
	p.rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Threads != p.threads })
	y := 84.0
	y = p.bars(y, "Prefill, 512 tokens", "tokens/s", "prefill 512")
	y = p.bars(y, "Decoding, one stream, empty cache", "tokens/s", "decode 128", "decode 64")
	y = p.bars(y, "Decoding, one stream, 2048 tokens in the cache", "tokens/s", fmt.Sprintf("decode 128 at %d", deep))
	y = p.bars(y, "Answers per second, clients with a shared system prompt and passages of their own", "requests/s", p.serveWork())
	y = p.curves(y)
	y = p.roofline(y)
	return p.finish(y)
}

// Geometry in pixels, and the colours: ragd first, then the peers in order of appearance.
const (
	plotWidth  = 920.0
	plotLeft   = 250.0
	plotRight  = 800.0
	barHeight  = 15.0
	chartH     = 250.0
	ink, faint = "#1f2933", "#cbd2d9"
	soft       = "#616e7c"
)

var palette = []string{"#0b7285", "#e8590c", "#9c36b5", "#5c940d", "#c2255c", "#1864ab"}

type picture struct {
	rows    []Row
	threads int
	names   []string // engines that have a colour, in order
	body    strings.Builder
}

func (p *picture) serveWork() string {
	for _, r := range p.rows {
		if strings.HasPrefix(r.Work, "serve ") && r.Unit == "requests/s" && !strings.Contains(r.Work, ",") {
			return r.Work
		}
	}
	return ""
}

func (p *picture) color(engine string) string {
	i := slices.Index(p.names, engine)
	if i < 0 {
		i = len(p.names)
		p.names = append(p.names, engine)
	}
	return palette[i%len(palette)]
}

// ragdOn names ragd on an instruction set.
func ragdOn(r Row) string { return "ragd " + r.ISA }

func (p *picture) text(x, y float64, anchor, color string, size float64, s string) {
	fmt.Fprintf(&p.body, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\" font-size=\"%.0f\">%s</text>\n", x, y, anchor, color, size, html.EscapeString(s))
}

func (p *picture) title(y float64, s string) {
	fmt.Fprintf(&p.body, "<text x=\"24\" y=\"%.1f\" fill=\"%s\" font-size=\"15\" font-weight=\"600\">%s</text>\n", y, ink, html.EscapeString(s))
}

func (p *picture) line(x1, y1, x2, y2 float64, color string, extra string) {
	fmt.Fprintf(&p.body, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" %s/>\n", x1, y1, x2, y2, color, extra)
}

// bar is one engine's figure for one model.
type bar struct {
	engine       string
	value, limit float64
	ratio        float64 // ragd's value over this one; 0 for ragd's own
}

// group is the bars of one model on one instruction set.
type group struct {
	name string
	bars []bar
}

// groups collects the figures of the first of works that a model has.
func (p *picture) groups(unit string, works []string) []group {
	var list []group
	at := map[string]int{}
	for _, work := range works {
		for _, r := range p.rows {
			if r.Work != work || r.Unit != unit {
				continue
			}
			key := r.Model + "\x00" + r.ISA
			i, seen := at[key]
			if !seen {
				i = len(list)
				at[key] = i
				list = append(list, group{r.Model, []bar{{ragdOn(r), r.Value, r.Limit, 0}}})
			}
			if r.Peer != "" && !slices.ContainsFunc(list[i].bars, func(b bar) bool { return b.engine == r.Peer }) {
				list[i].bars = append(list[i].bars, bar{r.Peer, r.PeerValue, 0, r.Ratio})
			}
		}
	}
	return list
}

// bars draws one chart of horizontal bars; each model has a scale of its own, because models differ by a factor of ten. It returns where the next starts.
func (p *picture) bars(y float64, title, unit string, works ...string) float64 {
	list := p.groups(unit, works)
	if len(list) == 0 {
		return y
	}
	p.title(y, title+" ("+unit+")")
	y += 14
	for _, g := range list {
		top := 0.0
		for _, b := range g.bars {
			top = max(top, b.value, b.limit)
		}
		p.text(plotLeft-10, y+barHeight*float64(len(g.bars))/2+4, "end", ink, 12, shortName(g.name))
		for _, b := range g.bars {
			w := (plotRight - plotLeft) * b.value / top
			fmt.Fprintf(&p.body, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" fill=\"%s\"/>\n",
				plotLeft, y+1, max(w, 1), barHeight-3, p.color(b.engine))
			label := figure(b.value)
			if b.ratio > 0 {
				label += fmt.Sprintf("  (ragd %.1f×)", b.ratio)
			} else if b.limit > 0 {
				label += fmt.Sprintf("  (%.0f %% of the limit)", 100*b.value/b.limit)
			}
			p.barLabel(plotLeft+w, y+barHeight-4, label)
			if b.limit > 0 {
				x := plotLeft + (plotRight-plotLeft)*b.limit/top
				p.line(x, y-1, x, y+barHeight*float64(len(g.bars)), ink, `stroke-width="1.5" stroke-dasharray="3 2"`)
			}
			y += barHeight
		}
		y += 9
	}
	return y + 26
}

// barLabel writes behind a bar, or inside it where there is no room.
func (p *picture) barLabel(x, y float64, s string) {
	if x > plotRight-60 {
		p.text(x-6, y, "end", "#ffffff", 11, s)
		return
	}
	const outlined = `paint-order="stroke" stroke="#ffffff" stroke-width="3"`
	fmt.Fprintf(&p.body, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\" font-size=\"11\" %s>%s</text>\n", x+6, y, soft, outlined, html.EscapeString(s))
}

// shortName drops what all file names have.
func shortName(s string) string {
	s = strings.NewReplacer("-Instruct", "", "Qwen2.5-Coder", "Qwen2.5-C").Replace(s)
	if s == "" {
		return "this machine"
	}
	return s
}

func figure(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// point is one place in a chart.
type point struct {
	x, y  float64
	label string
}

// axes is a chart with logarithmic scales.
type axes struct {
	left, top, width, height float64
	x0, x1, y0, y1           float64
}

func (a axes) x(v float64) float64 { return a.left + a.width*math.Log(v/a.x0)/math.Log(a.x1/a.x0) }

func (a axes) y(v float64) float64 { return a.top + a.height*(1-math.Log(v/a.y0)/math.Log(a.y1/a.y0)) }

// fit makes axes that hold all points with some room.
func fit(left, top, width float64, points []point) axes {
	a := axes{left, top, width, chartH, math.Inf(1), 0, math.Inf(1), 0}
	for _, q := range points {
		a.x0, a.x1 = min(a.x0, q.x), max(a.x1, q.x)
		a.y0, a.y1 = min(a.y0, q.y), max(a.y1, q.y)
	}
	a.x0, a.x1, a.y0, a.y1 = a.x0/1.25, a.x1*1.3, a.y0/1.25, a.y1*1.3
	return a
}

// ticks are the numbers 1, 2 and 5 times a power of ten in [from, to].
func ticks(from, to float64) []float64 {
	var list []float64
	for e := math.Floor(math.Log10(from)); e <= math.Log10(to); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= from && v <= to {
				list = append(list, v)
			}
		}
	}
	return list
}

func (p *picture) frame(a axes, xName, yName string) {
	for _, v := range ticks(a.x0, a.x1) {
		p.line(a.x(v), a.top, a.x(v), a.top+a.height, faint, `stroke-width="0.6"`)
		p.text(a.x(v), a.top+a.height+15, "middle", soft, 11, tick(v))
	}
	for _, v := range ticks(a.y0, a.y1) {
		p.line(a.left, a.y(v), a.left+a.width, a.y(v), faint, `stroke-width="0.6"`)
		p.text(a.left-6, a.y(v)+4, "end", soft, 11, tick(v))
	}
	p.line(a.left, a.top+a.height, a.left+a.width, a.top+a.height, ink, "")
	p.line(a.left, a.top, a.left, a.top+a.height, ink, "")
	p.text(a.left+a.width/2, a.top+a.height+32, "middle", soft, 12, xName)
	fmt.Fprintf(&p.body, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\" fill=\"%s\" font-size=\"12\">%s</text>\n",
		a.left-42, a.top+a.height/2, soft, html.EscapeString(yName))
}

func tick(v float64) string {
	if v >= 10000 {
		return fmt.Sprintf("%.0fk", v/1000)
	}
	return fmt.Sprintf("%g", v)
}

func (p *picture) path(a axes, points []point, color string) {
	var d strings.Builder
	for i, q := range points {
		fmt.Fprintf(&d, "%c%.1f %.1f ", "ML"[min(i, 1)], a.x(q.x), a.y(q.y))
	}
	fmt.Fprintf(&p.body, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", d.String(), color)
	for _, q := range points {
		fmt.Fprintf(&p.body, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", a.x(q.x), a.y(q.y), color)
		if q.label != "" {
			p.text(a.x(q.x), a.y(q.y)-8, "middle", color, 10, q.label)
		}
	}
}

// curves draws throughput against the pause between two tokens of a stream, one chart per model, two beside each other.
func (p *picture) curves(y float64) float64 {
	var models []string
	for _, r := range p.rows {
		if strings.HasPrefix(r.Work, "batch of ") && !slices.Contains(models, r.Model) {
			models = append(models, r.Model)
		}
	}
	if len(models) == 0 {
		return y
	}
	p.title(y, "Streams together (the numbers): throughput against latency")
	y += 34
	for i, m := range models {
		left := 80 + 440*float64(i%2)
		p.curve(left, y, m)
		if i%2 == 1 || i == len(models)-1 {
			y += chartH + 74
		}
	}
	return y
}

func (p *picture) curve(left, top float64, model string) {
	lines, order := map[string][]point{}, []string{}
	add := func(name string, n int, rate float64) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
		q := point{1000 * float64(n) / rate, rate, fmt.Sprint(n)}
		if !slices.Contains(lines[name], q) {
			lines[name] = append(lines[name], q)
		}
	}
	var all []point
	for _, r := range p.rows {
		var n int
		if _, err := fmt.Sscanf(r.Work, "batch of %d", &n); err != nil || r.Model != model {
			continue
		}
		add(ragdOn(r), n, r.Value)
		if r.PeerValue > 0 {
			add(r.Peer, n, r.PeerValue)
		}
	}
	for _, l := range lines {
		all = append(all, l...)
	}
	a := fit(left, top, 340, all)
	p.text(left+170, top-8, "middle", ink, 12, shortName(model))
	p.frame(a, "ms between two tokens of a stream", "tokens/s, all streams")
	for _, name := range order {
		slices.SortFunc(lines[name], func(a, b point) int { return int(math.Copysign(1, a.x-b.x)) })
		p.path(a, lines[name], p.color(name))
	}
}

// roofline draws what was reached against operations per byte: the sloping roof is memory, the flat one arithmetic.
func (p *picture) roofline(y float64) float64 {
	points := p.reached()
	isa := ""
	for _, q := range p.rows {
		if q.Work == "int8 peak" {
			isa = max(isa, q.ISA) // the widest: the names sort that way
		}
	}
	var bandwidth, peak float64
	for _, r := range p.rows {
		switch {
		case r.ISA != isa:
		case r.Work == "int8 peak":
			peak = r.Value
		case strings.HasPrefix(r.Work, "read bandwidth"):
			bandwidth = r.Value
		}
	}
	if len(points) == 0 || bandwidth == 0 || peak == 0 {
		return y
	}
	p.title(y, fmt.Sprintf("Roofline, %s: %.0f GB/s from huge pages, %.0f int8 GOPS", isa, bandwidth, peak))
	y += 20
	all := []point{{1, bandwidth, ""}, {4000, peak, ""}}
	for _, s := range points {
		all = append(all, s.points...)
	}
	a := fit(90, y, 560, all)
	p.frame(a, "operations per byte of weights and cache read", "GOPS")
	ridge := peak / bandwidth
	fmt.Fprintf(&p.body, "<path d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"6 3\"/>\n",
		a.x(a.x0*1.01), a.y(a.x0*1.01*bandwidth), a.x(ridge), a.y(peak), a.x(a.x1), a.y(peak), ink)
	shown := 0
	for i, s := range points {
		if s.isa != isa {
			continue
		}
		color := palette[i%len(palette)]
		for _, q := range s.points {
			fmt.Fprintf(&p.body, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" fill-opacity=\"0.85\"/>\n", a.x(q.x), a.y(q.y), color)
		}
		fmt.Fprintf(&p.body, "<circle cx=\"676\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", y+12+18*float64(shown)-4, color)
		p.text(686, y+12+18*float64(shown), "start", ink, 11, shortName(s.name))
		shown++
	}
	return y + chartH + 60
}

// series is the places of one model in the roofline.
type series struct {
	name, isa string
	points    []point
}

// reached computes operations per byte and per second from what a token costs.
func (p *picture) reached() []series {
	var list []series
	for _, r := range p.rows {
		if r.Ops == 0 || r.Bytes == 0 {
			continue
		}
		i := slices.IndexFunc(list, func(s series) bool { return s.name == r.Model && s.isa == r.ISA })
		if i < 0 {
			i = len(list)
			list = append(list, series{name: r.Model, isa: r.ISA})
		}
		if q := (point{r.Ops / r.Bytes, r.Value * r.Ops / 1e9, ""}); !slices.Contains(list[i].points, q) {
			list[i].points = append(list[i].points, q)
		}
	}
	return list
}

// finish puts a title and the legend on top and closes the picture.
func (p *picture) finish(height float64) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" font-family=\"%s\">\n",
		plotWidth, height, plotWidth, height, "system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif")
	fmt.Fprintf(&out, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n")
	body := p.body.String()
	p.body.Reset()
	cpu := ""
	for _, r := range p.rows {
		cpu = r.CPU
	}
	p.text(24, 28, "start", ink, 13, fmt.Sprintf("%s, %d threads; the dashed lines are what the machine allows", cpu, p.threads))
	x := 24.0
	for _, name := range p.names {
		fmt.Fprintf(&p.body, "<rect x=\"%.1f\" y=\"38\" width=\"11\" height=\"11\" rx=\"2\" fill=\"%s\"/>\n", x, p.color(name))
		p.text(x+16, 48, "start", ink, 12, name)
		x += 36 + 6.6*float64(len(name))
	}
	return []byte(out.String() + p.body.String() + body + "</svg>\n")
}
