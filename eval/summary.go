package eval

// Summary is an answer run in numbers.
type Summary struct {
	Set           string              `json:"set"`
	Settings      map[string]string   `json:"settings"`
	N             int                 `json:"n"`
	Unanswerable  int                 `json:"unanswerable"`
	Metrics       map[string]Interval `json:"metrics"` // means over the questions that have them
	Refusal       Refusal             `json:"refusal"`
	FalseQuotes   int                 `json:"false_quotes"`
	FalseMarkers  int                 `json:"false_markers"`
	Quotes        int                 `json:"quotes"`
	Variants      []Change            `json:"variants,omitempty"`
	Steady        Interval            `json:"steady"`            // share of the variants of a question that get the same judgement as the question
	AnsweredFound float64             `json:"answered_of_found"` // share of the answerable questions whose evidence was read that were answered
}

// Change says what putting questions differently in one way does to their answers.
type Change struct {
	Variant  string     `json:"variant"`
	Contains float64    `json:"contains"` // share of the answers that hold an accepted one
	Answered float64    `json:"answered"`
	Change   Difference `json:"change"` // of contains, to the questions as they were
}

// Refusal says how well a run knows what it cannot answer.
type Refusal struct {
	Precision float64            `json:"precision"`
	Recall    float64            `json:"recall"`
	F1        float64            `json:"f1"`
	AUROC     map[string]float64 `json:"auroc"` // of the confidence and of each plain score
	ECE       float64            `json:"ece"`
	AURC      float64            `json:"aurc"` // area under the risk-coverage curve, an answer being right when the question can be answered and is
	Curve     []Point            `json:"curve"`
}

// Summarise computes the numbers of records.
func Summarise(h Header, records []Answered) Summary {
	s := Summary{Set: h.Set, Settings: h.Settings, N: len(records), Metrics: map[string]Interval{}}
	values := map[string][]float64{}
	found, answered := 0, 0
	for i := range records {
		r := &records[i]
		for name, v := range r.Metrics {
			values[name] = append(values[name], v)
		}
		s.FalseQuotes += int(r.Metrics["false_quotes"])
		s.FalseMarkers += int(r.Metrics["false_markers"])
		s.Quotes += int(r.Metrics["quotes"])
		if !r.Answerable {
			s.Unanswerable++
		}
		if has, known := r.Metrics["evidence"]; r.Answerable && (!known || has > 0) {
			found++
			answered += int(number(!r.Abstained))
		}
	}
	for name, v := range values {
		s.Metrics[name] = Mean(v)
	}
	if found > 0 {
		s.AnsweredFound = float64(answered) / float64(found)
	}
	s.Refusal = refusalOf(records)
	s.Steady, s.Variants = steady(records), changes(records)
	return s
}

// changes compares the variants of each kind with the questions that they were made from.
func changes(records []Answered) []Change {
	byID := map[string]*Answered{}
	kinds := map[string][]*Answered{}
	for i := range records {
		r := &records[i]
		byID[r.ID] = r
		if r.Variant != "" {
			kinds[r.Variant] = append(kinds[r.Variant], r)
		}
	}
	var all []Change
	for _, kind := range sortedKeys(kinds) {
		var before, after, answered []float64
		for _, r := range kinds[kind] {
			if base := byID[r.Of]; base != nil {
				before, after = append(before, base.Metrics["contains"]), append(after, r.Metrics["contains"])
				answered = append(answered, number(!r.Abstained))
			}
		}
		if len(after) > 0 {
			all = append(all, Change{kind, average(after), average(answered), Paired(before, after)})
		}
	}
	return all
}

// steady compares the variants of a question (said in other words, with noise, passages in another order) with the question: what a person would call
// the same question should be answered as rightly.
func steady(records []Answered) Interval {
	byID := map[string]*Answered{}
	for i := range records {
		byID[records[i].ID] = &records[i]
	}
	var same []float64
	for i := range records {
		r := &records[i]
		if base := byID[r.Of]; base != nil && base.Answerable == r.Answerable {
			same = append(same, number(base.Abstained == r.Abstained && base.Metrics["contains"] == r.Metrics["contains"]))
		}
	}
	return Mean(same)
}

func refusalOf(records []Answered) Refusal {
	scores := map[string]func(*Answered) float64{
		"confidence": func(r *Answered) float64 { return r.Confidence },
		"rerank":     func(r *Answered) float64 { return r.Evidence.Top },
		"bm25":       func(r *Answered) float64 { return r.Evidence.Lexical },
		"dense":      func(r *Answered) float64 { return r.Evidence.Dense },
		"cover":      func(r *Answered) float64 { return r.Evidence.Cover },
	}
	out := Refusal{AUROC: map[string]float64{}}
	var hit, called, all float64
	var sure, right []Scored
	for i := range records {
		r := &records[i]
		called += number(r.Abstained)
		all += number(!r.Answerable)
		hit += number(r.Abstained && !r.Answerable)
		sure = append(sure, Scored{r.Confidence, r.Answerable})
		right = append(right, Scored{r.Confidence, r.Answerable && !r.Abstained})
	}
	if hit > 0 {
		out.Precision, out.Recall, out.F1 = hit/called, hit/all, 2*hit/(called+all)
	}
	if all > 0 && all < float64(len(records)) {
		for name, score := range scores {
			rows := make([]Scored, len(records))
			for i := range records {
				rows[i] = Scored{score(&records[i]), records[i].Answerable}
			}
			out.AUROC[name] = AUROC(rows)
		}
	}
	out.ECE = ECE(sure)
	out.Curve, out.AURC = RiskCoverage(right)
	return out
}
