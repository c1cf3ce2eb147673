package distill

import (
	"fmt"
	"math"
	"strings"
)

// Curve is a named sequence of losses, one per step.
type Curve struct {
	Name   string
	Values []float64
}

// means averages the values into at most n parts of nearly equal length.
func (c Curve) means(n int) []float64 {
	n = min(n, len(c.Values))
	out := make([]float64, n)
	for i := range out {
		from, to := i*len(c.Values)/n, (i+1)*len(c.Values)/n
		for _, v := range c.Values[from:to] {
			out[i] += v / float64(to-from)
		}
	}
	return out
}

// Sparkline draws the curve as a line of text of at most width characters.
func (c Curve) Sparkline(width int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	means := c.means(width)
	low, high := extent(means)
	var b strings.Builder
	for _, v := range means {
		at := 0
		if high > low {
			at = int((v - low) / (high - low) * float64(len(levels)-1))
		}
		b.WriteRune(levels[at])
	}
	return b.String()
}

func extent(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	return low, high
}

// SVG draws curves over their steps, each averaged to at most 200 points.
func SVG(title, unit string, curves ...Curve) string {
	const width, height, left, top, right, bottom = 720, 360, 60, 40, 20, 50
	colours := []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd"}
	var all []float64
	steps := 0
	for _, c := range curves {
		all = append(all, c.means(200)...)
		steps = max(steps, len(c.Values))
	}
	low, high := extent(all)
	if !(high > low) {
		low, high = low-1, high+1
	}
	y := func(v float64) float64 { return top + (high-v)/(high-low)*(height-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="22" font-size="15">%s</text>`+"\n", left, escape(title))
	for i := range 5 {
		v := low + (high-low)*float64(i)/4
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.3g</text>`+"\n",
			left, y(v), width-right, y(v), left-6, y(v)+4, v)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%d</text>`+"\n", left+(width-left-right)*i/4, height-bottom+18, steps*i/4)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">step</text><text x="14" y="%d" transform="rotate(-90 14 %d)" text-anchor="middle">%s</text>`+"\n",
		(left+width-right)/2, height-10, height/2, height/2, escape(unit))
	for i, c := range curves {
		points := c.means(200)
		var path []string
		for j, v := range points {
			x := left + float64(width-left-right)*(float64(j)+0.5)/float64(len(points))*float64(len(c.Values))/float64(steps)
			path = append(path, fmt.Sprintf("%.1f,%.1f", x, y(v)))
		}
		colour := colours[i%len(colours)]
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", colour, strings.Join(path, " "))
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s</text>`+"\n", width-right-4, top+14+16*i, colour, escape(c.Name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
