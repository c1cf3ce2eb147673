package verify

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/embed"
)

func kinds(facts []Fact) []string {
	var all []string
	for _, f := range facts {
		all = append(all, string(f.Kind)+" "+f.Text)
	}
	return all
}

func TestDetailsThatNoSourceHolds(t *testing.T) {
	const source = "Every employee has 27 paid vacation days. The plan began on 1 March 2021 and costs $1,500. Contoso Electronics pays half of it."
	for statement, want := range map[string][]string{
		"There are 27 days.":                                    nil,
		"There are twenty-seven days.":                          nil,
		"There are 28 days.":                                    {"number 28"},
		"It costs 1500 dollars.":                                nil,
		"It costs 1.5 thousand dollars.":                        nil,
		"The plan began on March 1, 2021.":                      nil,
		"The plan began on 2021-03-01.":                         nil,
		"The plan began on 2 March 2021.":                       {"date 2 March 2021"},
		"The plan began in March 2021.":                         nil,
		"The plan began in April 2021.":                         {"date April 2021"},
		"Half is paid by Contoso.":                              nil,
		"Half is paid by Northwind.":                            {"name Northwind"},
		"Up to 27 may be taken.":                                nil,
		"Northwind pays.":                                       nil, // the first word of a sentence says nothing by its capital
		"27 - 10 = 17 days are left.":                           {"number 10"},
		"Half of 1,500 is 1500 / 27 = 60.":                      {"result 60", "number 60"},
		"Die Firma Müller zahlt die Hälfte und der Rest ist 27": nil,
	} {
		require.ElementsMatch(t, want, kinds(Missing(statement, source, "")), statement)
	}
	require.Empty(t, Missing("Northwind covers 28 days for Anna Berg.", source+" covers", "Does the Northwind plan cover 28 days for Anna Berg?"), "the question's own details")
}

func TestNegationsContradict(t *testing.T) {
	const source = "Employees may not carry over unused vacation days."
	_, no := Contradicts("Employees may carry over unused vacation days.", source)
	require.True(t, no)
	_, no = Contradicts("Employees cannot carry over unused vacation days.", source)
	require.False(t, no)
	_, no = Contradicts("The office is open on weekdays.", source)
	require.False(t, no, "about something else")
}

func TestFeaturesTellCopiesFromInventions(t *testing.T) {
	evidence := []string{"The device was built in Oslo in 1998 by a team of nine engineers. It weighs 40 kilograms.", "A later model weighs less."}
	copied := lexical("The device was built in Oslo in 1998.", evidence)
	invented := lexical("The device was sold in Bergen in 2003.", evidence)
	require.Equal(t, 1.0, copied.Cover)
	require.Equal(t, 1.0, copied.Copied)
	require.Zero(t, copied.Numbers)
	require.Less(t, invented.Cover, copied.Cover)
	require.Less(t, invented.Pairs, copied.Pairs)
	require.Equal(t, 1.0, invented.Numbers)
	require.Equal(t, 1.0, invented.Names)
}

// oracle answers with fixed numbers.
type oracle struct{}

func (oracle) Score(_ context.Context, _ string, passages []string) ([]float32, error) {
	logits := make([]float32, len(passages))
	for i, p := range passages {
		logits[i] = float32(len(p))
	}
	return logits, nil
}
func (oracle) Model() string { return "test" }
func (oracle) Dim() int      { return 1 }
func (oracle) Embed(_ context.Context, _ embed.Role, texts []string) ([]embed.Vector, error) {
	all := make([]embed.Vector, len(texts))
	for i := range all {
		all[i] = embed.Vector{float32(i)}
	}
	return all, nil
}
func (oracle) States(_ context.Context, statement string, texts []string) (float64, error) {
	return float64(len(statement) + len(texts)), nil
}

func TestHelpersFillTheirFeatures(t *testing.T) {
	f, err := (&Gauge{Cross: oracle{}, Embedder: oracle{}, Language: oracle{}}).Measure(t.Context(), "It is blue. It is red.", []string{"The sky is blue.", "A rose."})
	require.NoError(t, err)
	require.Equal(t, float64(len("The sky is blue.")), f.Cross)
	require.Equal(t, f.Cross, f.CrossLow)
	require.InDelta(t, 1.5, f.Embedding, 1e-9) // (0*3 + 1*3) / 2
	require.Equal(t, float64(len("It is blue. It is red.")+1), f.Stated)
}

func TestCheckTellsSupportFromNone(t *testing.T) {
	evidence := []string{"The device was built in Oslo in 1998 by nine engineers."}
	good := Check("The device was built in Oslo in 1998.", evidence)
	bad := Check("Whales sing at night in the southern ocean.", evidence)
	require.True(t, good.Supported)
	require.False(t, bad.Supported)
	require.Greater(t, good.Probability, bad.Probability)
	require.False(t, Check("Anything at all.", nil).Supported)
}

func TestWhatAModelSaysCounts(t *testing.T) {
	evidence := []string{"The device was built in Oslo in 1998 by nine engineers. The workshop closed in 2004."}
	const statement = "The device was built in 2004 by nine engineers."
	yes, no := CheckAsked(statement, evidence, 3), CheckAsked(statement, evidence, -4)
	require.True(t, yes.Supported)
	require.False(t, no.Supported)
	require.Greater(t, yes.Probability, no.Probability)
	require.False(t, CheckAsked(statement, evidence, 0).Sure, "doubtful")
	require.True(t, CheckAsked("The device was built in Oslo in 1998.", evidence, 2).Sure)
	require.False(t, CheckAsked("Whales sing at night in the southern ocean.", evidence, 0).Supported)
}

func TestFitFindsTheCoefficientsThatMadeTheData(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var examples []Example
	for range 4000 {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		examples = append(examples, Example{Values: map[string]float64{"a": a, "b": b}, True: rng.Float64() < sigmoid(1.5*a-b+0.5)})
	}
	m, err := Fit([]string{"a", "b"}, examples, 1e-6, false)
	require.NoError(t, err)
	require.InDelta(t, 1.5, m.Weights[0]/m.Scale[0], 0.15)
	require.InDelta(t, -1, m.Weights[1]/m.Scale[1], 0.15)
	require.NoError(t, m.Check())
	_, err = Fit([]string{"a"}, examples[:0], 1, false)
	require.Error(t, err)
}

func FuzzMissing(f *testing.F) {
	f.Add("On 1 March 2021, 27 × 3 = 81 people came.", "It was March.")
	f.Add("\xff\x001.2.3 de 5 Mär", "")
	f.Fuzz(func(t *testing.T, statement, evidence string) {
		for _, m := range Missing(statement, evidence, "") {
			require.Equal(t, statement[m.Start:m.End], m.Text)
		}
		Check(statement, []string{evidence})
	})
}

func TestLinksMustStandInTheEvidenceToTheLastCharacter(t *testing.T) {
	const evidence = "See https://halden.example/travel?year=2026, or write to Travel@halden.example."
	for statement, missing := range map[string]string{
		"Details stand at https://halden.example/travel?year=2026.":          "",
		"Write to travel@halden.example.":                                    "",
		"Write to **travel@halden.example**!":                                "",
		"Details stand at https://halden.example/travel?year=2026&pin=2026.": "https://halden.example/travel?year=2026&pin=2026",
		"Details stand at <img src=http://evil.example/?d=27>.":              "http://evil.example/?d=27",
		"Write to boss@evil.example.":                                        "boss@evil.example",
		"It is at www.evil.example/x.":                                       "www.evil.example/x",
		"Open javascript:alert(1).":                                          "javascript:alert(1",
		"The year is 2026.":                                                  "",
	} {
		var found []string
		for _, f := range Missing(statement, evidence, "") {
			if f.Kind == LinkFact {
				require.Equal(t, f.Text, statement[f.Start:f.End])
				found = append(found, f.Text)
			}
		}
		require.Equal(t, missing, strings.Join(found, " "), statement)
	}
}

func TestPlacesInAListAreNoFacts(t *testing.T) {
	evidence := "Keep all receipts. Bring your card to every appointment."
	for statement, want := range map[string]int{
		"1. Keep all receipts.":                        0,
		"These are the tips:\n\n1. Keep all receipts.": 0,
		"  2) Bring your card.":                        0,
		"Keep all 4. Receipts":                         1,
		"25. Keep all receipts.":                       1,
		"12":                                           1,
		"1. Keep all 12 receipts.":                     1,
		"3.5 receipts":                                 1,
	} {
		require.Len(t, Missing(statement, evidence, ""), want, statement)
	}
}
