package eval

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAUROCCountsPairs(t *testing.T) {
	rows := []Scored{{0.9, true}, {0.8, false}, {0.7, true}, {0.1, false}, {0.7, false}}
	// Pairs: 0.9 beats three; 0.7 loses to 0.8, beats 0.1, ties with 0.7.
	require.InDelta(t, (3+1+0.5)/6.0, AUROC(rows), 1e-12)
	require.True(t, math.IsNaN(AUROC(rows[:1])))
}

func TestBootstrapHoldsTheMean(t *testing.T) {
	values := make([]float64, 200)
	for i := range values {
		values[i] = float64(i % 2)
	}
	m := Mean(values)
	require.InDelta(t, 0.5, m.Value, 1e-12)
	require.InDelta(t, 0.5-1.96*0.5/math.Sqrt(200), m.Low, 0.02)
	require.InDelta(t, 0.5+1.96*0.5/math.Sqrt(200), m.High, 0.02)
	require.Equal(t, m, Mean(values), "a report is a function of its results")
}

func TestPairedSeesADifferenceThatUnpairedWouldNot(t *testing.T) {
	a, b := make([]float64, 100), make([]float64, 100)
	for i := range a {
		a[i] = float64(i%10) / 10
		b[i] = a[i] + 0.02
	}
	d := Paired(a, b)
	require.InDelta(t, 0.02, d.Value, 1e-9)
	require.Less(t, d.P, 0.01)
	require.Equal(t, 1.0, Paired(a, a).P)
}

func TestRiskCoverageAndCalibration(t *testing.T) {
	curve, area := RiskCoverage([]Scored{{0.9, true}, {0.5, false}})
	require.Equal(t, []Point{{0.5, 0}, {1, 0.5}}, curve)
	require.InDelta(t, 0.25, area, 1e-12)
	require.InDelta(t, 0.5, ECE([]Scored{{0.5, true}, {0.5, true}}), 1e-12)
	require.InDelta(t, 0, ECE([]Scored{{1, true}, {0, false}}), 1e-12)
}

func TestBestThresholdIsJudgedByRefusals(t *testing.T) {
	rows := []Scored{{0.1, false}, {0.2, false}, {0.3, true}, {0.9, true}}
	threshold, f1 := BestThreshold(rows)
	require.Equal(t, 1.0, f1)
	require.Equal(t, 0.3, threshold)
	require.InDelta(t, 2.0/3, F1Below(rows, 0.15), 1e-12)
}

func TestAnswersAreComparedAsPeopleWould(t *testing.T) {
	answers := []string{"15,000 NOK", "the Learning Budget"}
	require.True(t, ExactMatch("A learning budget.", answers))
	require.True(t, Contains("Each employee has 15000 NOK a year [1].", answers))
	require.False(t, Contains("Each employee has 115000 NOK.", answers))
	require.InDelta(t, 2*2.0/(3+2), TokenF1("15000 NOK yearly", answers), 1e-12)
	require.InDelta(t, 0.5, WordRecall("NOK", answers), 1e-12)
}

func TestHeldOutPartIsFixed(t *testing.T) {
	held := 0
	for i := range 1000 {
		q := Query{ID: string(rune('a'+i%26)) + string(rune('0'+i/26))}
		if q.IsHeldOut() {
			held++
		}
	}
	require.InDelta(t, 600, held, 60)
	no := false
	require.Equal(t, (&Query{ID: "x"}).IsHeldOut(), (&Query{ID: "x2", Of: "x"}).IsHeldOut(), "a variant stands with its question")
	require.False(t, (&Query{ID: "anything", HeldOut: &no}).IsHeldOut())
}
