package distill

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"ragd/llm/kernel"
)

// Features is how many scores of a candidate the ranking student weighs: the cosine of question and passage, BM25 as a share of the question's best,
// and 60/(60+rank) in the dense and in the lexical leg. With the weights 0, 0, 1, 1 it is reciprocal rank fusion.
const Features = 4

// Ranker is the ranking student: Score = Weights·features, after the question's vector was turned by q ← q + Up·(Down·q), brought to unit length.
type Ranker struct {
	Dim     int               `json:"dim"`
	Rank    int               `json:"rank"` // of the turn; 0: the vector stays as it is
	Weights [Features]float32 `json:"weights"`
	Up      []float32         `json:"up,omitempty"`   // [Dim][Rank]
	Down    []float32         `json:"down,omitempty"` // [Rank][Dim]
}

// ReadRanker reads what Marshal wrote.
func ReadRanker(data []byte) (*Ranker, error) {
	r := &Ranker{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("distill: read ranker: %w", err)
	}
	if r.Dim < 1 || r.Rank < 0 || r.Rank > r.Dim || len(r.Up) != r.Dim*r.Rank || len(r.Down) != r.Dim*r.Rank {
		return nil, fmt.Errorf("distill: read ranker: %d and %d weights do not turn %d dimensions with rank %d", len(r.Up), len(r.Down), r.Dim, r.Rank)
	}
	return r, nil
}

// Marshal writes the student for ReadRanker.
func (r *Ranker) Marshal() ([]byte, error) { return json.Marshal(r) }

// Turn returns the question's vector as the dense leg is to be asked with; q is not changed. A vector of another dimension comes back as it is: the
// index refuses it with the reason.
func (r *Ranker) Turn(q []float32) []float32 {
	if r.Rank == 0 || len(q) != r.Dim {
		return q
	}
	turned, _, length := r.turn(q)
	for i := range turned {
		turned[i] /= length
	}
	out := make([]float32, len(turned))
	for i, v := range turned {
		out[i] = float32(v)
	}
	return out
}

// turn returns q + Up·Down·q, Down·q and the length of the first.
func (r *Ranker) turn(q []float32) (turned, inner []float64, length float64) {
	inner, turned = make([]float64, r.Rank), make([]float64, r.Dim)
	for k := range inner {
		inner[k] = dot(r.Down[k*r.Dim:][:r.Dim], q)
	}
	for i := range turned {
		turned[i] = float64(q[i])
		for k, v := range inner {
			turned[i] += float64(r.Up[i*r.Rank+k]) * v
		}
		length += turned[i] * turned[i]
	}
	return turned, inner, math.Sqrt(length)
}

// Score weighs a candidate's features; higher is better.
func (r *Ranker) Score(features [Features]float64) float64 {
	var s float64
	for i, w := range r.Weights {
		s += float64(w) * features[i]
	}
	return s
}

func dot(a, b []float32) float64 { // in float64: the gradient is checked by differences
	var s float64
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return s
}

// Candidate is a passage that the teacher has scored for a question.
type Candidate struct {
	Vector   []float32
	Features [Features]float64 // the first, the cosine, is computed anew from Vector
	Teacher  float64           // logit
}

// Question is a training question with its candidates.
type Question struct {
	Vector     []float32
	Candidates []Candidate
}

// RankerOptions of TrainRanker.
type RankerOptions struct {
	Rank        int     // of the turn; 0: train the weights alone
	Steps       int     // passes over the questions, at most, in each of both phases
	Temperature float64 // softens the teacher's relevance
	Rate        float64 // learning rate of the weights; the turn's is a tenth of it
	Decay       float64 // weight decay of the turn
	Seed        uint64
}

// LeastQuestions is how many a ranking student needs to learn from.
const LeastQuestions = 20

// Check refuses options that cannot work, and ErrTooLittle questions. TrainRanker does, too; ask before the teacher reads for minutes.
func (o RankerOptions) Check(questions int) error {
	if questions < LeastQuestions {
		return fmt.Errorf("distill: %w: %d training questions; at least %d are needed", ErrTooLittle, questions, LeastQuestions)
	}
	if !positive(o.Temperature) || !positive(o.Rate) || o.Rank < 0 || o.Steps <= 0 {
		return errors.New("distill: temperature, rate and steps must be positive, rank must not be negative")
	}
	return nil
}

// RankerCurve is the listwise loss (KL divergence in nats per question) before every step, on the questions trained on and on those kept aside to
// decide when to stop.
type RankerCurve struct{ Train, Kept []float64 }

// patience is how many steps without a better loss on the questions kept aside end a phase.
const patience = 40

// TrainRanker learns the order that the teacher gives to the candidates: it minimises the mean divergence of the student's softmax over a question's
// candidates from the teacher's. First the weights alone, then with the turn; a fifth of the questions says when to stop and whether the turn is worth
// having. It returns ErrTooLittle for less than LeastQuestions.
func TrainRanker(p *kernel.Pool, questions []Question, o RankerOptions) (*Ranker, RankerCurve, error) {
	const keep = 5
	var curve RankerCurve
	if err := o.Check(len(questions)); err != nil {
		return nil, curve, err
	}
	var train, kept []Question
	for i, at := range rand.New(rand.NewPCG(o.Seed, 0xa9a)).Perm(len(questions)) {
		if i < len(questions)/keep {
			kept = append(kept, questions[at])
		} else {
			train = append(train, questions[at])
		}
	}
	best := &Ranker{Dim: len(questions[0].Vector), Weights: [Features]float32{10, 1, 2, 2}}
	best = o.phase(p, best, train, kept, &curve)
	if o.Rank > 0 {
		turning := *best
		turning.Rank = min(o.Rank, best.Dim)
		turning.Up, turning.Down = make([]float32, turning.Dim*turning.Rank), make([]float32, turning.Dim*turning.Rank)
		r := rand.New(rand.NewPCG(o.Seed, 0xd0))
		for i := range turning.Down {
			turning.Down[i] = float32(r.NormFloat64() / math.Sqrt(float64(turning.Dim)))
		}
		turned := o.phase(p, &turning, train, kept, &curve)
		if turned != &turning { // else the first step was the best one
			best = turned
		}
	}
	return best, curve, nil
}

// phase improves r until the kept questions do not gain any more, and returns the best one seen, r itself if that is it.
func (o RankerOptions) phase(p *kernel.Pool, r *Ranker, train, kept []Question, curve *RankerCurve) *Ranker {
	best, bestLoss, bestStep := r, math.Inf(1), 0
	m := r.clone()
	weights, turn := newAdam(Features), newAdam(2*len(m.Up))
	flat := func(x *Ranker) []float32 { return append(append([]float32(nil), x.Up...), x.Down...) }
	decay := make([]bool, 2*len(m.Up))
	for i := range decay {
		decay[i] = true
	}
	for step := range o.Steps {
		g := &Ranker{Dim: m.Dim, Rank: m.Rank, Up: make([]float32, len(m.Up)), Down: make([]float32, len(m.Down))}
		loss := m.loss(train, o.Temperature, g)
		aside := m.loss(kept, o.Temperature, nil)
		curve.Train, curve.Kept = append(curve.Train, loss), append(curve.Kept, aside)
		if aside < bestLoss-1e-6 {
			best, bestLoss, bestStep = m.clone(), aside, step
			if step == 0 {
				best = r
			}
		}
		if step-bestStep >= patience {
			break
		}
		weights.update(p, m.Weights[:], g.Weights[:], o.Rate, 0, gradientClip, nil)
		if m.Rank > 0 {
			w := flat(m)
			turn.update(p, w, flat(g), o.Rate/10, o.Decay, gradientClip, decay)
			copy(m.Up, w)
			copy(m.Down, w[len(m.Up):])
		}
	}
	return best
}

func (r *Ranker) clone() *Ranker {
	c := *r
	c.Up, c.Down = append([]float32(nil), r.Up...), append([]float32(nil), r.Down...)
	return &c
}

// loss is the mean divergence over the questions; its gradient is added to g where g is not nil.
func (r *Ranker) loss(questions []Question, temperature float64, g *Ranker) float64 {
	sum, weights := 0.0, [Features]float64{}
	for i := range questions {
		sum += r.question(&questions[i], temperature, 1/float64(len(questions)), &weights, g)
	}
	if g != nil {
		for i, w := range weights {
			g.Weights[i] += float32(w)
		}
	}
	return sum / float64(max(len(questions), 1))
}

// question returns the divergence of one question and adds scale times its gradient to dw and g, which may be nil.
func (r *Ranker) question(q *Question, temperature, scale float64, dw *[Features]float64, g *Ranker) float64 {
	turned, inner, length := r.turn(q.Vector)
	unit := make([]float32, len(turned))
	for i, v := range turned {
		unit[i] = float32(v / length)
	}
	n := len(q.Candidates)
	features, student, teacher := make([][Features]float64, n), make([]float64, n), make([]float64, n)
	for i := range q.Candidates {
		c := &q.Candidates[i]
		features[i] = c.Features
		var cosine float64
		for j, v := range turned {
			cosine += v * float64(c.Vector[j])
		}
		features[i][0] = cosine / length
		student[i], teacher[i] = r.Score(features[i]), c.Teacher/temperature
	}
	logS, logT := logSoftmax(student), logSoftmax(teacher)
	var loss float64
	for i := range logS {
		loss += math.Exp(logT[i]) * (logT[i] - logS[i])
	}
	if g == nil {
		return loss
	}
	dTurned := make([]float64, r.Dim)
	for i := range q.Candidates {
		d := scale * (math.Exp(logS[i]) - math.Exp(logT[i]))
		for k := range dw {
			dw[k] += d * features[i][k]
		}
		along := d * float64(r.Weights[0]) / length
		for j := range dTurned {
			dTurned[j] += along * (float64(q.Candidates[i].Vector[j]) - features[i][0]*float64(unit[j]))
		}
	}
	if r.Rank == 0 {
		return loss
	}
	for k, v := range inner {
		var d float64
		for i, dt := range dTurned {
			g.Up[i*r.Rank+k] += float32(dt * v)
			d += float64(r.Up[i*r.Rank+k]) * dt
		}
		for i, x := range q.Vector {
			g.Down[k*r.Dim+i] += float32(d * float64(x))
		}
	}
	return loss
}

func logSoftmax(x []float64) []float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	var sum float64
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v - top - math.Log(sum)
	}
	return out
}
