package sample

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// course holds the numbers of the inference course that concern this package; all are stated to three digits.
type course struct {
	Softmax struct {
		Logits []float32
		T1     []float64 `json:"temperature_1"`
		THalf  []float64 `json:"temperature_0.5"`
		T2     []float64 `json:"temperature_2"`
	}
	Greedy struct {
		Logits []float32
		Picks  int32
	}
	TopK struct {
		Logits   []float32
		K        int
		KeptMass float64 `json:"kept_mass"`
		Probs    []float64
	} `json:"top_k"`
	TopP struct {
		Logits     []float32
		P          float32
		Cumulative []float64
		Kept       []int32
		Probs      []float64
	} `json:"top_p"`
	Beam struct {
		First     map[string]float64
		BestAfter map[string]float64 `json:"best_after"`
		Greedy    float64            `json:"greedy_path"`
		Width2    float64            `json:"beam_width_2_path"`
	}
}

func loadCourse(t *testing.T) course {
	data, err := os.ReadFile("testdata/course-numbers.json")
	require.NoError(t, err)
	var c course
	require.NoError(t, json.Unmarshal(data, &c))
	return c
}

// distribution is what Sample draws from.
func distribution(p Params, logits []float32, mask []uint64) (ids []int32, probs []float64) {
	s := New(p, 0, new(Workspace))
	c := slices.Clone(s.survivors(s.modify(logits, mask)))
	slices.SortFunc(c, byWeight)
	for _, x := range c {
		ids = append(ids, x.id)
		probs = append(probs, float64(x.weight)/mass(c))
	}
	return ids, probs
}

const courseDigits = 0.0005000001

func TestCourseNumbers(t *testing.T) {
	c := loadCourse(t)
	for temperature, want := range map[float32][]float64{1: c.Softmax.T1, 0.5: c.Softmax.THalf, 2: c.Softmax.T2} {
		_, probs := distribution(Params{Temperature: temperature}, c.Softmax.Logits, nil)
		require.InDeltaSlice(t, want, probs, courseDigits, "temperature %v", temperature)
	}
	require.Equal(t, c.Greedy.Picks, New(Params{}, 0, new(Workspace)).Sample(c.Greedy.Logits, nil, 0))

	_, all := distribution(Params{Temperature: 1}, c.TopK.Logits, nil)
	require.InDelta(t, c.TopK.KeptMass, all[0]+all[1], courseDigits)
	ids, probs := distribution(Params{Temperature: 1, TopK: c.TopK.K}, c.TopK.Logits, nil)
	require.Equal(t, []int32{0, 1}, ids)
	require.InDeltaSlice(t, c.TopK.Probs, probs, courseDigits)

	sum := 0.0
	for i, want := range c.TopP.Cumulative {
		sum += all[i]
		require.InDelta(t, want, sum, courseDigits)
	}
	ids, probs = distribution(Params{Temperature: 1, TopP: c.TopP.P}, c.TopP.Logits, nil)
	require.Equal(t, c.TopP.Kept, ids)
	require.InDeltaSlice(t, c.TopP.Probs, probs, courseDigits)
}

// courseTree plays the course's example: tokens A=0 and B=1, then the best continuation C=2 with the stated
// probability (the rest goes to D=3), then the end token 4.
func courseTree(c course, prefix []int32) []float32 {
	row := []float32{negInf, negInf, negInf, negInf, negInf}
	set := func(id int, p float64) { row[id] = float32(math.Log(p)) }
	switch len(prefix) {
	case 0:
		set(0, c.Beam.First["A"])
		set(1, c.Beam.First["B"])
	case 1:
		p := c.Beam.BestAfter[string(rune('A'+prefix[0]))]
		set(2, p)
		set(3, (1-p)/2) // two equal alternatives, so that C stays the best after A as well
		set(0, (1-p)/2)
	default:
		set(4, 1)
	}
	return row
}

func TestCourseBeam(t *testing.T) {
	c := loadCourse(t)
	for width, want := range map[int]float64{1: c.Beam.Greedy, 2: c.Beam.Width2} {
		for _, penalty := range []float64{0, 1} {
			b := &Beams{Width: width, LengthPenalty: penalty, End: func(id int32) bool { return id == 4 }}
			for !b.Done() {
				var rows [][]float32
				for _, h := range b.Live() {
					rows = append(rows, courseTree(c, h.Tokens))
				}
				b.Step(rows, nil)
			}
			require.InDelta(t, want, math.Exp(b.Best()[0].Sum), 1e-6, "width %d, penalty %v", width, penalty)
		}
	}
}

// Beam search with a width that covers the whole tree must find the best of all sequences.
func TestBeamFindsTheBestSequence(t *testing.T) {
	const vocab, depth = 4, 4
	end := func(id int32) bool { return id == 0 }
	for seed := range uint64(50) {
		model := func(prefix []int32) []float32 {
			h := seed
			for _, x := range prefix {
				h = mix(h*31 + uint64(x) + 1)
			}
			rng := rand.New(rand.NewPCG(h, 7))
			row := make([]float32, vocab)
			for i := range row {
				row[i] = float32(rng.NormFloat64() * 2)
			}
			if len(prefix) == depth-1 { // everything ends here
				for i := 1; i < vocab; i++ {
					row[i] = negInf
				}
			}
			return row
		}
		b := &Beams{Width: 64, LengthPenalty: 1, End: end}
		best := math.Inf(-1)
		var search func(prefix []int32, sum float64)
		search = func(prefix []int32, sum float64) {
			row := model(prefix)
			for id := range int32(vocab) {
				s := sum + float64(LogProb(row, id))
				switch next := append(slices.Clone(prefix), id); {
				case row[id] == negInf:
				case end(id):
					best = max(best, b.Score(Hypothesis{Tokens: next, Sum: s}))
				default:
					search(next, s)
				}
			}
		}
		search(nil, 0)
		for !b.Done() {
			var rows [][]float32
			for _, h := range b.Live() {
				rows = append(rows, model(h.Tokens))
			}
			b.Step(rows, nil)
		}
		got := b.Best()[0]
		require.InDelta(t, best, b.Score(got), 1e-5)
		require.True(t, got.Ended)
	}
}

func TestBeamHonoursMasks(t *testing.T) {
	b := &Beams{Width: 2, End: func(int32) bool { return false }}
	chosen := b.Step([][]float32{{5, 4, 3, 2}}, [][]uint64{{0b1010}})
	require.Len(t, chosen, 2)
	require.EqualValues(t, 1, chosen[0].Token)
	require.EqualValues(t, 3, chosen[1].Token)
	require.InDelta(t, LogProb([]float32{5, 4, 3, 2}, 1), chosen[0].LogProb, 1e-6, "what is reported is the model's own")
	require.InDelta(t, LogProb([]float32{4, 2}, 0), b.Live()[0].Sum, 1e-6, "what is scored is among the allowed")
	chosen = b.Step([][]float32{{1, 2, 3, 4}, {1, 2, 3, 4}}, [][]uint64{{0}, {0b1}})
	require.Len(t, chosen, 1)
	require.Equal(t, 1, chosen[0].Parent)
	b.Finish(0)
	require.True(t, b.Done())
	require.Equal(t, []int32{3, 0}, b.Best()[0].Tokens)
}

func TestGreedy(t *testing.T) {
	nan := float32(math.NaN())
	inf := float32(math.Inf(1))
	for name, tc := range map[string]struct {
		p      Params
		logits []float32
		mask   []uint64
		want   int32
	}{
		"ties go to the lowest id":     {Params{}, []float32{1, 3, 3, 2}, nil, 1},
		"mask":                         {Params{}, []float32{1, 3, 3, 2}, []uint64{0b1001}, 3},
		"short mask forbids the rest":  {Params{}, make([]float32, 100), []uint64{0}, -1},
		"nothing allowed":              {Params{}, []float32{1, 2}, []uint64{0}, -1},
		"nan never wins":               {Params{}, []float32{nan, 1, nan}, nil, 1},
		"only nan":                     {Params{}, []float32{nan, nan}, nil, -1},
		"empty":                        {Params{}, nil, nil, -1},
		"bias":                         {Params{LogitBias: map[int32]float32{2: 5, 900: 1, -4: 1}}, []float32{1, 3, 0}, nil, 2},
		"bias can ban":                 {Params{LogitBias: map[int32]float32{1: negInf}}, []float32{1, 3, 0}, nil, 0},
		"infinity wins":                {Params{}, []float32{1, inf, 2}, nil, 1},
		"sampled infinity wins":        {Params{Temperature: 1}, []float32{1, inf, 2}, nil, 1},
		"sampled, only nan":            {Params{Temperature: 1}, []float32{nan}, nil, -1},
		"sampled, nothing allowed":     {Params{Temperature: 1, TopP: 0.5}, []float32{1, 2}, []uint64{0}, -1},
		"top-k 1 is greedy":            {Params{Temperature: 3, TopK: 1}, []float32{1, 3, 3, 2}, nil, 1},
		"tiny top-p is greedy":         {Params{Temperature: 3, TopP: 1e-6}, []float32{1, 3, 3, 2}, nil, 1},
		"min-p 1 keeps only the best":  {Params{Temperature: 3, MinP: 1}, []float32{1, 3, 2}, nil, 1},
		"very low temperature":         {Params{Temperature: 1e-4}, []float32{1, 3, 2.9}, nil, 1},
		"large logits do not overflow": {Params{Temperature: 0.1, TopP: 0.5}, []float32{-3e38, 3e38, 0}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tc.logits)
			require.Equal(t, tc.want, New(tc.p, 0, new(Workspace)).Sample(tc.logits, tc.mask, 3))
			for i := range before {
				require.Equal(t, math.Float32bits(before[i]), math.Float32bits(tc.logits[i]), "logits are read only")
			}
		})
	}
}

func TestPenaltiesCountGeneratedTokensOnly(t *testing.T) {
	logits := []float32{2, -2, 1}
	s := New(Params{RepetitionPenalty: 2, PresencePenalty: 0.5, FrequencyPenalty: 0.25}, 0, new(Workspace))
	require.Equal(t, logits, s.modify(logits, nil))
	s.Accept(0)
	s.Accept(0)
	s.Accept(1)
	require.Equal(t, []float32{2.0/2 - 0.5 - 0.5, -2*2 - 0.5 - 0.25, 1}, s.modify(logits, nil))
}

func TestDrawDependsOnSeedStreamAndPositionOnly(t *testing.T) {
	logits := make([]float32, 1000)
	p := Params{Temperature: 1, Seed: 42}
	ws := new(Workspace)
	want := New(p, 0, ws).Sample(logits, nil, 7)
	s := New(p, 0, ws)
	for range 5 {
		s.Sample(logits, nil, 1)
	}
	require.Equal(t, want, s.Sample(logits, nil, 7))
	different := 0
	for _, other := range []int32{
		New(p, 1, ws).Sample(logits, nil, 7), New(p, 0, ws).Sample(logits, nil, 8),
		New(Params{Temperature: 1, Seed: 43}, 0, ws).Sample(logits, nil, 7),
	} {
		if other != want {
			different++
		}
	}
	require.Equal(t, 3, different)
}

// The draw follows the stated distribution: chi-square against it stays below the 99.99 % point for 3 degrees of freedom.
func TestDrawFrequencies(t *testing.T) {
	logits := []float32{3, 2, 1, 0}
	_, probs := distribution(Params{Temperature: 1}, logits, nil)
	for _, p := range []Params{{Temperature: 1, Seed: 1}, {Temperature: 1, Seed: 2, TopK: 4, TopP: 0.99999}} {
		const n = 40_000
		counts := make([]float64, 4)
		s := New(p, 0, new(Workspace))
		for i := range n {
			counts[s.Sample(logits, nil, i)]++
		}
		chi := 0.0
		for i, c := range counts {
			chi += (c - n*probs[i]) * (c - n*probs[i]) / (n * probs[i])
		}
		require.Less(t, chi, 21.1)
	}
}

// reference is the textbook chain: sort everything, then cut.
func reference(p Params, logits []float32) (ids []int32) {
	type tok struct {
		id int32
		p  float64
	}
	var all []tok
	z := 0.0
	top := float64(slices.Max(logits))
	for i, l := range logits {
		w := math.Exp((float64(l) - top) / float64(p.Temperature))
		all = append(all, tok{int32(i), w})
		z += w
	}
	slices.SortStableFunc(all, func(a, b tok) int { return cmp.Compare(b.p, a.p) })
	if p.MinP > 0 {
		all = slices.DeleteFunc(all, func(x tok) bool { return x.p < float64(p.MinP) })
	}
	if p.TopK > 0 && p.TopK < len(all) {
		all = all[:p.TopK]
	}
	if p.TopP > 0 && p.TopP < 1 {
		total, sum := 0.0, 0.0
		for _, x := range all {
			total += x.p
		}
		for i, x := range all {
			if sum += x.p; sum >= float64(p.TopP)*total {
				all = all[:i+1]
				break
			}
		}
	}
	for _, x := range all {
		ids = append(ids, x.id)
	}
	return ids
}

func TestChainAgainstReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		logits := make([]float32, 1+rng.IntN(400))
		scale := rng.Float64() * 4 // small enough that no weight underflows
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * scale)
		}
		p := Params{Temperature: 0.5 + 2*rng.Float32()}
		if rng.IntN(2) == 0 {
			p.TopK = 1 + rng.IntN(50)
		}
		if rng.IntN(2) == 0 {
			p.TopP = 0.05 + 0.9*rng.Float32()
		}
		if rng.IntN(3) == 0 {
			p.MinP = 0.3 * rng.Float32()
		}
		ids, _ := distribution(p, logits, nil)
		require.Equal(t, reference(p, logits), ids, "%+v", p)
	}
}

// topP takes the set that sorting gives, whatever the order and the ties.
func TestTopPEqualsSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for round := range 400 {
		c := make([]candidate, 1+rng.IntN(300))
		for i := range c {
			c[i] = candidate{int32(i), float32(1 + rng.IntN(1+round%7))} // many ties
			if round%3 == 0 {
				c[i].weight = float32(math.Exp(rng.NormFloat64() * 5))
			}
		}
		switch round % 4 {
		case 1:
			slices.SortFunc(c, byWeight)
		case 2:
			slices.SortFunc(c, func(a, b candidate) int { return byWeight(b, a) })
		}
		p := rng.Float64()
		sorted := slices.SortedFunc(slices.Values(c), byWeight)
		total, sum, n := mass(c), 0.0, 0
		for ; n < len(sorted) && sum < p*total*(1-1e-12); n++ {
			sum += float64(sorted[n].weight)
		}
		got := topP(c, p*total)
		slices.SortFunc(got, byWeight)
		require.Equal(t, sorted[:max(n, 1)], got, "round %d", round)
	}
}

func TestExp(t *testing.T) {
	worst := 0.0
	for x := float32(0); x > -87; x -= 0.00137 {
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(exp(x))-want)/want)
	}
	require.Less(t, worst, 2.4e-7) // 2 units in the last place
	require.EqualValues(t, 1, exp(0))
	require.Zero(t, exp(-88))
	require.Zero(t, exp(negInf))
	require.Zero(t, exp(float32(math.NaN())))
	row := []float32{1, -2, negInf, float32(math.NaN()), 0.5}
	sum := 0.0
	for _, x := range row {
		sum += float64(exp(x - 1))
	}
	require.Equal(t, sum, expSum(row, 1, 1, expMin))
}

func TestLogProb(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	logits := make([]float32, 5000)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 4)
	}
	logits[17], logits[18] = 40, 40
	z := 0.0
	for _, l := range logits {
		z += math.Exp(float64(l))
	}
	top := Top(logits, 20)
	require.Len(t, top, 20)
	require.EqualValues(t, 17, top[0].Token)
	require.EqualValues(t, 18, top[1].Token)
	for i, a := range top {
		require.InDelta(t, float64(logits[a.Token])-math.Log(z), float64(a.LogProb), 1e-5)
		require.Equal(t, LogProb(logits, a.Token), a.LogProb)
		require.True(t, i == 0 || top[i-1].LogProb >= a.LogProb)
	}
	require.Empty(t, Top(logits, 0))
	require.Len(t, Top(logits[:3], 20), 3)
}

func TestValidate(t *testing.T) {
	nan := float32(math.NaN())
	require.NoError(t, Params{}.Validate())
	require.NoError(t, Params{Temperature: 1, TopP: 1, MinP: 0.1, TopK: 40, LogitBias: map[int32]float32{1: -100}}.Validate())
	for name, p := range map[string]Params{
		"temperature": {Temperature: -1}, "top_p": {TopP: 1.1}, "min_p": {MinP: nan}, "top_k": {TopK: -1},
		"repetition_penalty": {RepetitionPenalty: -2}, "logit bias": {LogitBias: map[int32]float32{3: nan}},
	} {
		require.ErrorContains(t, p.Validate(), name)
	}
}

// Whatever the numbers are, the choice is an allowed token, or -1 when no token has a usable logit.
func FuzzSample(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 192, 127, 0, 0, 128, 255}, float32(1), float32(0.9), float32(0.1), 3, uint64(5))
	f.Add([]byte{255, 255, 127, 127, 0, 0, 0, 0}, float32(0.01), float32(0), float32(0), 0, uint64(3))
	f.Add([]byte{}, float32(0), float32(0), float32(0), 0, uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, temperature, topP, minP float32, topK int, mask uint64) {
		p := Params{Temperature: temperature, TopP: topP, MinP: minP, TopK: topK, PresencePenalty: 1}
		if p.Validate() != nil {
			return
		}
		logits := make([]float32, min(len(data)/4, 64))
		possible := false
		for i := range logits {
			b := data[4*i:]
			logits[i] = math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
			possible = possible || (logits[i] > negInf && mask>>i&1 == 1)
		}
		s := New(p, 0, new(Workspace))
		for pos := range 3 {
			id := s.Sample(logits, []uint64{mask}, pos)
			if !possible {
				require.EqualValues(t, -1, id)
				return
			}
			require.True(t, id >= 0 && int(id) < len(logits) && mask>>id&1 == 1 && logits[id] > negInf)
		}
	})
}

func BenchmarkSample(b *testing.B) {
	logits := make([]float32, 151936)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for name, p := range map[string]Params{
		"greedy": {}, "temperature": {Temperature: 1}, "top-k": {Temperature: 1, TopK: 40},
		"top-p": {Temperature: 1, TopP: 0.95}, "min-p": {Temperature: 1, MinP: 0.05},
	} {
		b.Run(name+"/151936", func(b *testing.B) {
			s := New(p, 0, new(Workspace))
			for i := 0; b.Loop(); i++ {
				s.Sample(logits, nil, i)
			}
		})
	}
	b.Run("top-p of a flat distribution/151936", func(b *testing.B) {
		s := New(Params{Temperature: 50, TopP: 0.95}, 0, new(Workspace))
		for i := 0; b.Loop(); i++ {
			s.Sample(logits, nil, i)
		}
	})
	b.Run("logprob/151936", func(b *testing.B) {
		for b.Loop() {
			LogProb(logits, 5)
		}
	})
}
