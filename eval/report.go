package eval

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed report.html
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"curve": curveSVG, "calibration": calibrationSVG, "bars": barsSVG,
	"pct": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
}).Parse(reportText))

// page is what the template shows.
type page struct {
	Summary Summary
	Names   []string // of the metrics, in order
	Records []Answered
}

// WriteReport writes an answer run as one HTML page that needs nothing else: plots, and every question with its passages, statements and quotes, where
// a reader can say of each statement whether its quotes support it. The labels are kept by the browser and saved as a file of [Label] lines.
func WriteReport(w io.Writer, h Header, records []Answered) error {
	s := Summarise(h, records)
	if err := reportTemplate.Execute(w, page{Summary: s, Names: sortedKeys(s.Metrics), Records: records}); err != nil {
		return fmt.Errorf("eval: report: %w", err)
	}
	return nil
}

const plotSize = 260 // of the square inside the axes, in pixels

// plot draws axes from 0 to 1 around shapes.
func plot(title, x, y, shapes string) template.HTML {
	return template.HTML(fmt.Sprintf(`<figure><svg viewBox="-40 -10 %d %d" width="%d" role="img" aria-label="%s"><rect width="%d" height="%d" class="frame"/>`+
		`<text x="%d" y="%d">%s</text><text transform="translate(-26 %d) rotate(-90)">%s</text><text x="0" y="%d">0</text><text x="%d" y="%d">1</text><text x="-14" y="6">1</text>%s</svg><figcaption>%s</figcaption></figure>`,
		plotSize+60, plotSize+55, plotSize+60, title, plotSize, plotSize, plotSize/3, plotSize+34, x, 2*plotSize/3, y, plotSize+16, plotSize-6, plotSize+16, shapes, title))
}

func curveSVG(points []Point) template.HTML {
	var line strings.Builder
	for _, p := range points {
		fmt.Fprintf(&line, "%.1f,%.1f ", p.Coverage*plotSize, (1-p.Risk)*plotSize)
	}
	return plot("Risk and coverage", "share of questions answered", "share answered wrongly", `<polyline class="line" points="`+line.String()+`"/>`)
}

// calibrationSVG draws, for each tenth of confidence, which share of the questions could be answered.
func calibrationSVG(records []Answered) template.HTML {
	var n, yes, sum [calibrationBins]float64
	for i := range records {
		b := max(0, min(calibrationBins-1, int(records[i].Confidence*calibrationBins)))
		n[b]++
		sum[b] += records[i].Confidence
		yes[b] += number(records[i].Answerable)
	}
	shapes := fmt.Sprintf(`<line class="diagonal" x1="0" y1="%d" x2="%d" y2="0"/>`, plotSize, plotSize)
	for b := range n {
		if n[b] > 0 {
			shapes += fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="%.1f" class="dot"><title>%.0f questions</title></circle>`, sum[b]/n[b]*plotSize, (1-yes[b]/n[b])*plotSize,
				2+2*math.Sqrt(n[b]), n[b])
		}
	}
	return plot("Calibration", "confidence", "share that can be answered", shapes)
}

func barsSVG(auroc map[string]float64) template.HTML {
	if len(auroc) == 0 {
		return ""
	}
	shapes, width := "", float64(plotSize)/float64(len(auroc))
	for i, name := range sortedKeys(auroc) {
		v := auroc[name]
		shapes += fmt.Sprintf(`<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/><text x="%.1f" y="%.1f">%s %.2f</text>`,
			float64(i)*width+4, (1-v)*plotSize, width-8, v*plotSize, float64(i)*width+4, (1-v)*plotSize-4, template.HTMLEscapeString(name), v)
	}
	return plot("AUROC: can it be answered?", "", "", shapes)
}

// Label is a person's judgement of a statement.
type Label struct {
	ID        string `json:"id"`        // of the question
	Statement int    `json:"statement"` // its place in the draft, from 0
	Text      string `json:"text"`
	Label     string `json:"label"` // "supported", "unsupported" or "unclear"
	By        string `json:"by,omitempty"`
}

// ReadLabels reads a file of labels; a later line on the same statement by the same person replaces an earlier one.
func ReadLabels(path string) ([]Label, error) {
	lines, err := readJSONLines[Label](path)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	var all []Label
	for _, l := range lines {
		if l.Label != "supported" && l.Label != "unsupported" && l.Label != "unclear" {
			return nil, fmt.Errorf("eval: %s: question %s: the label %q is not one of supported, unsupported, unclear", path, l.ID, l.Label)
		}
		key := fmt.Sprintf("%s\x00%d\x00%s", l.ID, l.Statement, l.By)
		if i, again := at[key]; again {
			all[i] = l
			continue
		}
		at[key] = len(all)
		all = append(all, l)
	}
	return all, nil
}

// Judgement is what labels say about verification.
type Judgement struct {
	Labelled     int     `json:"labelled"`
	Draft        float64 `json:"unsupported_before"` // share of the draft's statements that people found unsupported
	Kept         float64 `json:"unsupported_after"`  // the same of those that stand in answers
	Unmarked     float64 `json:"unsupported_sure"`   // the same of those that stand there without a mark of doubt
	Marked       int     `json:"marked"`             // statements that stand there as doubtful
	FalseAlarms  int     `json:"false_alarms"`       // supported statements that were taken out or withheld
	Missed       int     `json:"missed"`             // unsupported ones that stand there
	AUROCChecked float64 `json:"auroc_checked"`      // of the checker's probability
}

// Judge compares what verification said with what people say.
func Judge(records []Answered, labels []Label) Judgement {
	byID := map[string]*Answered{}
	for i := range records {
		byID[records[i].ID] = &records[i]
	}
	var j Judgement
	var bad, kept, keptBad, sure, sureBad float64
	var rows []Scored
	for _, l := range labels {
		r := byID[l.ID]
		if r == nil || l.Label == "unclear" || l.Statement < 0 || l.Statement >= len(r.Statements) {
			continue
		}
		s, wrong := &r.Statements[l.Statement], l.Label == "unsupported"
		j.Labelled++
		bad += number(wrong)
		rows = append(rows, Scored{s.Checked, !wrong})
		if !s.Supported || r.Abstained {
			j.FalseAlarms += int(number(!wrong))
			continue
		}
		kept++
		keptBad += number(wrong)
		j.Missed += int(number(wrong))
		if s.Doubtful {
			j.Marked++
			continue
		}
		sure++
		sureBad += number(wrong)
	}
	j.Draft, j.Kept, j.Unmarked = bad/max(1, float64(j.Labelled)), keptBad/max(1, kept), sureBad/max(1, sure)
	if a := AUROC(rows); !math.IsNaN(a) {
		j.AUROCChecked = a
	}
	return j
}
