package arith

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersAreFoundWhereTheyStand(t *testing.T) {
	for text, want := range map[string][]string{
		"It costs 1,234.50 dollars, or 1.234,50 euros.": {"2469/2", "2469/2"},
		"27 days, twenty-one of them in 2024":           {"27", "21", "2024"},
		"$181,674,817 and $160 million":                 {"181674817", "160000000"},
		"A rise of 3.5 % to 15 000":                     {"7/2", "15000"},
		"the B2 form, version v3 and RFC-2119":          {"2119"},
		"3.141 and 12.345.678 and 0,125":                {"3141/1000", "12345678", "1/8"},
		"-5 degrees, a 10-day trip, 7 and eight":        {"-5", "10", "7", "8"},
		"fünf Tage und drei Wochen":                     {"5", "3"},
		"":                                              nil,
	} {
		var got []string
		for _, n := range Find(text) {
			got = append(got, n.Value.RatString())
			require.LessOrEqual(t, n.End, len(text))
		}
		require.Equal(t, want, got, text)
	}
}

func TestEvalIsExact(t *testing.T) {
	for text, want := range map[string]string{
		"0.1 + 0.2":                  "3/10",
		"1/3*3":                      "1",
		"2 + 3 × 4 - 6 ÷ 2":          "11",
		"(1,500 - 20%*1,500) / 12":   "100",
		"2^10 - -1":                  "1025",
		"2^-2":                       "1/4",
		"avg(1; 2; 4)":               "7/3",
		"max(3, 9, 4) - min(3, 9)":   "6",
		"abs(5 - 8) + sum(1; 2)":     "6",
		"1.234,5 * 2":                "2469",
		"100000000000000000000000+1": "100000000000000000000001",
	} {
		got, err := Eval(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.RatString(), text)
	}
}

func TestEvalRefusesWhatIsNoExpression(t *testing.T) {
	for _, text := range []string{"", "1 +", "1/0", "0^-1", "2^0.5", "9^9^9", "foo(1)", "(1", "1 2", "2^65", "sum", "1;2"} {
		_, err := Eval(text)
		require.ErrorIs(t, err, ErrExpression, text)
	}
}

func TestFormatSaysWhenItRounds(t *testing.T) {
	text, exact := Format(big.NewRat(10, 4), 2)
	require.Equal(t, "2.5", text)
	require.True(t, exact)
	text, exact = Format(big.NewRat(1, 3), 2)
	require.Equal(t, "0.33", text)
	require.False(t, exact)
}

func TestEquationsAreComputedAgain(t *testing.T) {
	text := "The rest is 27 - 10 = 17 days. The year costs 12 × $1,500 = $18,500. A third is 10 / 3 = 3.33."
	found := Equations(text)
	require.Len(t, found, 3)
	require.Equal(t, []bool{true, false, true}, []bool{found[0].Holds, found[1].Holds, found[2].Holds})
	require.Equal(t, "18,500", text[found[1].ResultStart:found[1].End])
	require.Equal(t, "18000", found[1].Computed.RatString())
}

func FuzzEval(f *testing.F) {
	f.Add("1+2*(3-4)/5^2")
	f.Add("sum(1;2,3) %")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Eval(text)
		if err != nil {
			require.ErrorIs(t, err, ErrExpression)
			return
		}
		require.NotNil(t, v)
	})
}

func FuzzFind(f *testing.F) {
	f.Add("1.234,5 and 3 million, twenty-one 7%")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, n := range Find(text) {
			require.LessOrEqual(t, last, n.Start)
			require.Less(t, n.Start, n.End)
			require.LessOrEqual(t, n.End, len(text))
			last = n.Start
		}
		Equations(text)
	})
}
