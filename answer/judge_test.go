package answer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/retrieve"
	"ragd/verify"
)

// judged puts a draft through the citer and the judgement of words, as a run does.
func judged(t *testing.T, keep bool, draft string, from ...string) *Answer {
	s := sources(from...)
	c := newCiter(s, nil, "", nil)
	c.push(draft)
	c.flush()
	r := &run{Answerer: &Answerer{config: Config{Keep: keep}}, answer: Answer{Sources: s}}
	r.settle(c, "stop")
	r.compose()
	for _, x := range r.answer.Citations {
		p := s[x.Marker-1].Passage
		require.Equal(t, p.Text[x.SourceStart-p.Start:x.SourceEnd-p.Start], x.Quote)
		require.Equal(t, string([]rune(p.Text)[x.CharStart:x.CharEnd]), x.Quote)
		require.LessOrEqual(t, x.End, len(r.answer.Text))
	}
	for _, u := range r.answer.Unsupported {
		require.LessOrEqual(t, u.End, len(r.answer.Text))
	}
	return &r.answer
}

func TestAWrongNumberIsTakenOut(t *testing.T) {
	a := judged(t, false, "There are 28 vacation days per year. [1] The learning budget is 15,000 NOK. [2]", leave, study)
	require.Equal(t, "The learning budget is 15,000 NOK. [2]", a.Text)
	require.Len(t, a.Statements, 2)
	require.False(t, a.Statements[0].Supported)
	require.True(t, a.Statements[0].Removed)
	require.Equal(t, `no source holds the number "28"`, a.Statements[0].Why)
	require.Len(t, a.Citations, 1)
	require.Equal(t, "The learning budget is 15,000 NOK.", a.Text[a.Citations[0].Start:a.Citations[0].End])
	require.InDelta(t, 0.5, a.Evidence.Bare, 1e-9)
}

func TestUnsupportedStatementsCanStayFlagged(t *testing.T) {
	a := judged(t, true, "There are 28 vacation days per year. [1] The learning budget is 15,000 NOK. [2]", leave, study)
	require.Equal(t, "There are 28 vacation days per year. The learning budget is 15,000 NOK. [2]", a.Text)
	require.Equal(t, []Statement{{0, len("There are 28 vacation days per year.")}}, a.Unsupported)
	require.Equal(t, "The learning budget is 15,000 NOK.", a.Text[a.Citations[0].Start:a.Citations[0].End])
}

func TestPunctuationAfterAMarkerStaysWithItsSentence(t *testing.T) {
	a := judged(t, false, "There are 27 vacation days per year [1]. There are 99 days in total [1]. Unused budget lapses [2].", leave, study)
	require.Equal(t, "There are 27 vacation days per year [1]. Unused budget lapses [2].", a.Text)
	a = judged(t, false, "There are 99 vacation days per year [1]. Unused budget lapses [2].", leave, study)
	require.Equal(t, "Unused budget lapses [2].", a.Text)
}

func TestANegationThatTheSourceDoesNotHaveIsNoSupport(t *testing.T) {
	a := judged(t, false, "Up to 10 unused days may not be carried over to June. [1]", leave)
	require.Empty(t, a.Citations)
	require.Empty(t, a.Text)
}

func TestASecondLookFindsTheDetailElsewhere(t *testing.T) {
	const budget = "The budget of the learning programme is paid in NOK. The sum is 15,000 for each employee and year."
	a := judged(t, false, "Each employee has a learning budget of 15,000 NOK, and 10 unused days may be carried over. [1]", "Each employee has a learning budget.", study, leave)
	require.Len(t, a.Statements, 1)
	require.True(t, a.Statements[0].Supported, a.Statements[0].Why)
	require.GreaterOrEqual(t, len(a.Citations), 2)
	a = judged(t, false, "The learning budget is 15,000 NOK. [1]", budget)
	require.True(t, a.Statements[0].Supported, a.Statements[0].Why)
}

func TestAnUnfinishedLastStatementIsTakenOut(t *testing.T) {
	a := judged(t, false, "There are 27 vacation days per year. [1] In addition every", leave)
	require.Equal(t, "There are 27 vacation days per year. [1]", a.Text)
}

func TestARecordIsReadBackWhole(t *testing.T) {
	a := judged(t, false, "There are 27 vacation days per year. [1]", leave)
	a.ID, a.Trace.Dropped = "ans_1", []Dropped{{retrieve.Scored{Passage: retrieve.Passage{ID: 9, Document: 77}}, "others are more relevant"}}
	record, documents, err := a.Record()
	require.NoError(t, err)
	require.Equal(t, []retrieve.DocumentID{0, 77}, documents)
	back, err := ReadRecord(record)
	require.NoError(t, err)
	require.Equal(t, a.Text, back.Text)
	require.Equal(t, a.Citations, back.Citations)
	require.Equal(t, a.Trace.Dropped, back.Trace.Dropped)
	_, err = ReadRecord([]byte("{"))
	require.Error(t, err)
}

func TestCalculationsAreExactAndTheirOperandsComeFromTheSources(t *testing.T) {
	s := sources("The fee is 1,500.10 NOK a month.", "There are 12 months.")
	operands := operandsOf("What is the fee in total for 3 years?", s)
	require.Equal(t, []string{"3", "1500.1", "12"}, []string{operands[0].Text, operands[1].Text, operands[2].Text})
	require.Equal(t, "1,500.10", s[0].Passage.Text[operands[1].SourceStart:operands[1].SourceEnd])
	c, ok := computed(`{"operation":"multiply","operands":["1500.1","12","3"]}`, operands)
	require.True(t, ok)
	require.Equal(t, "1500.1 * 12 * 3", c.Expression)
	require.Equal(t, "54003.6", c.Result)
	require.True(t, c.Exact)
	require.Equal(t, []int{1, 2, 0}, []int{c.Operands[0].Marker, c.Operands[1].Marker, c.Operands[2].Marker})
	for _, text := range []string{`{"operation":"none","operands":["3","12"]}`, `{"operation":"divide","operands":["3","0"]}`, `x`, `{"operation":"add","operands":["3"]}`} {
		_, ok := computed(text, operands)
		require.False(t, ok, text)
	}
	require.True(t, asksToCompute.MatchString("How much is that in total?"))
	require.False(t, asksToCompute.MatchString("How many vacation days do I have?"))
}

func TestAComputedResultNeedsNoSource(t *testing.T) {
	s := sources(leave)
	c := newCiter(s, nil, "", []Computation{{Expression: "27 - 10", Result: "17"}})
	_, found := c.push("Of 27 paid vacation days 17 are left when 10 unused days are carried over. [1]")
	require.Len(t, found, 1)
	c = newCiter(s, nil, "", nil)
	_, found = c.push("Of 27 paid vacation days 17 are left when 10 unused days are carried over. [1]")
	require.Empty(t, found)
}

func TestAComputedResultIsCitedToEachOperand(t *testing.T) {
	const home = "Children under 3,000 days stay at home. Halden pays a yearly home-office allowance of 3,000 NOK."
	s := sources(study, home)
	operands := operandsOf("What is the total of the learning budget and the home-office allowance?", s)
	x, ok := computed(`{"operation":"add","operands":["15000","3000"]}`, operands)
	require.True(t, ok)
	c := newCiter(s, nil, "", []Computation{x})
	shown, found := c.push("The total of the learning budget and the home-office allowance is 18,000 NOK. [1]")
	require.Equal(t, "The total of the learning budget and the home-office allowance is 18,000 NOK. [2][1]", shown)
	require.Len(t, found, 2)
	require.Equal(t, "Halden pays a yearly home-office allowance of 3,000 NOK.", found[0].Quote)
	require.Equal(t, "Each employee has a learning budget of 15,000 NOK and five working days per year.", found[1].Quote)
}

func TestOnlyNumbersOfOneKindAreAdded(t *testing.T) {
	s := sources("| 5 to 10 years | 2 months | 3 months |\n| More than 10 years | 3 months | 4 months |", "It costs € 12 or 15,000 NOK. Every employee has 27 paid vacation days, and five extra days from 60.")
	operands := operandsOf("What is the difference after 12 years, in months?", s)
	of := map[string][]string{}
	for _, o := range operands {
		of[o.Text] = o.Units
	}
	require.Equal(t, []string{"year", "eur"}, of["12"])
	require.Equal(t, []string{"year"}, of["10"])
	require.Equal(t, []string{"month"}, of["3"])
	require.Equal(t, []string{"nok"}, of["15000"])
	require.Equal(t, []string{"day"}, of["27"])
	require.Equal(t, []string{"day"}, of["5"], "five, and 5 of a range, which says nothing")
	require.Empty(t, of["60"])

	_, ok := computed(`{"operation":"add","operands":["27","15000"]}`, operands)
	require.False(t, ok, "days and kroner")
	years, ok := computed(`{"operation":"subtract","operands":["12","10"]}`, operands)
	require.True(t, ok)
	require.Equal(t, []string{"year"}, years.Units)
	months, ok := computed(`{"operation":"subtract","operands":["4","3"]}`, operands)
	require.True(t, ok)
	for text, fine := range map[string]bool{"The difference is 2 months. [1]": false, "The notice by Halden is 1 month longer after 10 years. [1]": true} {
		c := newCiter(sources("After more than 10 years the notice by Halden is 4 months, the other 3 months: the difference."), nil, "", []Computation{years, months})
		_, found := c.push(text)
		require.Equal(t, fine, len(found) > 0, text)
	}
}

func TestEvidenceOfRetrieval(t *testing.T) {
	logit := func(x float32) *float32 { return &x }
	e := evidenceOf("unused vacation days", []retrieve.Scored{
		{Passage: retrieve.Passage{Text: study}, Rerank: logit(-1), Lexical: &retrieve.Hit{Score: 3}},
		{Passage: retrieve.Passage{Text: leave}, Rerank: logit(4), Dense: &retrieve.Hit{Score: 0.7}},
	})
	require.Equal(t, Evidence{Read: true, Top: 4, Margin: 5, Third: 1.5, About: 1, Lexical: 3, Dense: 0.7, Cover: 1}, e)
	require.Contains(t, verify.Values(e), "top")
	weak := e
	weak.Top, weak.Third, weak.Cover, weak.Refusal, weak.Nearest = -8, -9, 0.1, -0.1, -6
	require.Greater(t, e.before(), weak.before())
}

func TestTheSecondLookReachesPassagesThatTheModelDidNotRead(t *testing.T) {
	const parking = "Visitors pay 40 NOK per day for parking behind the main building."
	spare := []retrieve.Scored{
		{Passage: retrieve.Passage{ID: 70, Document: 7, Path: "canteen.md", Text: "The canteen behind the main building opens at 11:30.", End: 52}},
		{Passage: retrieve.Passage{ID: 71, Document: 8, Path: "parking.md", Text: parking, Start: 9, End: 9 + len(parking)}},
	}
	read := sources(leave, study)
	c := newCiter(read, spare, "", nil)
	shown, found := c.push("There are 27 vacation days per year. [1] Visitors pay 40 NOK per day for parking. [2] Visitors pay 50 NOK per day for parking. [2]")
	require.Equal(t, "There are 27 vacation days per year. [1] Visitors pay 40 NOK per day for parking. [3] Visitors pay 50 NOK per day for parking.", shown)
	require.Len(t, found, 2)
	require.Equal(t, retrieve.PassageID(71), found[1].Passage)
	require.Equal(t, parking, found[1].Quote)
	require.Equal(t, 9, found[1].SourceStart)
	require.True(t, found[1].Corrected)
	require.Len(t, read, 2, "the sources that a reader already has stay as they are")

	r := &run{Answerer: &Answerer{}, answer: Answer{Sources: read}}
	r.settle(c, "stop")
	r.compose()
	require.Len(t, r.answer.Read(), 2)
	require.Len(t, r.answer.Sources, 3)
	require.True(t, r.answer.Sources[2].Added)
	require.Equal(t, "There are 27 vacation days per year. [1] Visitors pay 40 NOK per day for parking. [3]", r.answer.Text)
}

func TestANumberOfAnotherRowIsTakenOut(t *testing.T) {
	const notice = "| Length of employment | Notice |\n|---|---|\n| Up to 5 years | 1 month |\n| 5 to 10 years | 2 months |\n| More than 10 years | 3 months |"
	a := judged(t, false, "With more than 10 years the notice is 2 months. [1] With 5 to 10 years the notice is 2 months. [1]", notice)
	require.Equal(t, "With 5 to 10 years the notice is 2 months. [1]", a.Text)
	require.Equal(t, `its source has "2" in another row than "More than 10 years 3 months"`, a.Statements[0].Why)
	a = judged(t, true, "With more than 10 years the notice is 2 months. [1]", notice)
	require.Equal(t, []Statement{{0, len("With more than 10 years the notice is 2 months.")}}, a.Unsupported)
	require.Empty(t, a.Citations)
}
