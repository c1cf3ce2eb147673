package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ragd/arith"
)

// The tables as their passages hold them: a PDF's without its gaps, Markdown's, and those of Word, HTML and spreadsheets with tabs.
const (
	hotels = "2. Hotels\n\nThe limit is per night, including breakfast and taxes. If no room can be found within the limit, the department head can approve up to 25 percent " +
		"more; the approval is attached to the expense report.\nPlace Limit per night (NOK)\nOslo, Bergen, Stavanger 1,900\nElsewhere in Norway 1,500\n" +
		"Copenhagen, Stockholm, Helsinki 2,100\nLondon, Paris, Zurich 2,600\nOther places abroad 1,800"
	notice = "## Notice periods\n\n| Length of employment | Notice by the employee | Notice by Halden |\n|---|---|---|\n| Trial period (first 6 months) | 14 days | 14 days |\n" +
		"| Up to 5 years | 1 month | 2 months |\n| 5 to 10 years | 2 months | 3 months |\n| More than 10 years | 3 months | 4 months |\n\nNotice periods run from the first day " +
		"of the month after notice was given, except in the trial period, where they run from the day of notice."
	contacts = "Contacts\n\nTopic\tWho\tExtension\nContract and payroll\tPeople & Culture\t4200\nExpenses and company card\tFinance\t4300\n" +
		"Laptop, accounts\tIT desk\t4100\nLost device, incidents\tSecurity Office\t4711\nSafety at work\tIngrid Solheim\t4520"
	commute = "Getting to work\n\nChoice\tWhat Halden pays\tCondition\nPublic transport pass\t60 % of the monthly pass\tat least 3 office days per week\n" +
		"Bicycle leasing\tup to 9,000 NOK per year\t36-month contract\nParking in Bergen\tnothing; 450 NOK per month is deducted\tsubject to a waiting list"
	week   = "- Monday: reception at 09:00, safety tour, lunch with the team.\n- Tuesday: introduction to the HX-20 sensor, 2 hours.\n- Wednesday: information security course (3 hours, mandatory)."
	cities = "| | Oslo | Bergen | Tromsø |\n|---|---|---|---|\n| Hotel limit | 1,900 | 1,500 | 1,700 |\n| Meals | 430 | 410 | 450 |"
	gapped = "Plan          Price     Storage\nBasic         10 EUR    50 GB\nTeam          25 EUR    200 GB\nEnterprise    60 EUR    1000 GB"
	german = "Ort Höchstbetrag pro Nacht\nBerlin, München 160 EUR\nÜbriges Deutschland 120 EUR\nDeutschland Nord 130 EUR\nAusland 180 EUR"
	flat   = "Length of employment Employee Employer\nUp to 5 years 1 month 2 months\n5 to 10 years 2 months 3 months\nMore than 10 years 3 months 4 months"
	french = "| Ancienneté | Préavis |\n|---|---|\n| jusqu’à 2 ans | 1 mois |\n| plus de 2 ans | 2 mois |"
	levels = "Level Budget\nLevel 1 500\nLevel 2 700\nLevel 3 900"
	broken = "Place\tLimit\nOslo, Bergen,\nStavanger\t1,900\nElsewhere\t1,500"
	hanzi  = "城市\t限额\n奥斯陆\t1900\n巴黎\t2600\n伦敦\t2500"
	norsk  = "Reise: 430 kr\nOvernatting: 780 kr\nFrokost: 90 kr"
	dots   = "Single room ........ 1,900\nDouble room ........ 2,300\nSuite .............. 4,100"
	nested = "Norway\t1,500\nElsewhere in Norway\t1,400\nNorth of Norway\t1,700"
	total  = "Cost\tAmount\nRent\t900\nPower\t300\nTotal\t1,200"
	stays  = "Month\tCity\tNights\nMay\tOslo\t12\nMay\tParis\t7\nJune\tOslo\t9"
)

func TestANumberOfAnotherRowIsFound(t *testing.T) {
	for _, c := range []struct{ table, question, statement, wrong string }{
		{hotels, "What is the hotel limit per night in Oslo?", "The hotel limit per night in Oslo is 2,100 NOK.", "2,100"},
		{hotels, "What is the hotel limit per night in Oslo?", "The hotel limit per night in Oslo is 1,500 NOK.", "1,500"},
		{hotels, "What is the hotel limit per night in Oslo?", "The hotel limit per night in Oslo is 1,900 NOK.", ""},
		{hotels, "What is the hotel limit per night in Oslo?", "2,100 NOK", "2,100"},
		{hotels, "What is the hotel limit per night in Oslo?", "1 900 NOK per night.", ""},
		{hotels, "What is the hotel limit in Oslo?", "The maximum is 2,600 NOK.", "2,600"},
		{hotels, "What is the hotel limit in Oslo?", "The limit in Oslo is up to 2,100 NOK.", "2,100"},
		{hotels, "What is the hotel limit in Oslo?", "The limit is no more than 2,100 NOK.", "2,100"},
		{hotels, "What is the hotel limit in Oslo?", "Hotel limits are between 1,500 and 2,600 NOK.", ""},
		{hotels, "What is the hotel limit in Oslo?", "Hotel limits go from 1,500 to 2,600 NOK.", ""},
		{hotels, "What is the hotel limit in Oslo?", "Hotel limits go up to 2,600 NOK, in Oslo the limit is 1,900 NOK.", ""},
		{hotels, "What is the hotel limit in Oslo?", "In Oslo it is 1,900 NOK, less than the 2,600 NOK of other capitals.", ""},
		{hotels, "What is the hotel limit in Oslo?", "With approval, up to 25 percent more than 1,900 NOK can be paid.", ""},
		{hotels, "Which limits are there?", "The limit is 1,500 NOK.", ""},
		{hotels, "What is the hotel limit?", "1,900 NOK in Oslo, 2,600 NOK in Paris and 2,100 NOK in Stockholm.", ""},
		{hotels, "What is the hotel limit?", "In Oslo 2,600 NOK, in Paris 1,900 NOK.", "2,600 1,900"},
		{hotels, "What is the hotel limit?", "Limits in Oslo and London are 1,900 and 2,600 NOK.", ""},
		{hotels, "What is the hotel limit in Norway?", "Elsewhere in Norway it is 1,500 NOK.", ""},
		{hotels, "What is the hotel limit in Norway?", "Elsewhere in Norway it is 1,900 NOK.", "1,900"},
		{hotels, "What is the limit in Norway outside Oslo?", "The limit is 1,500 NOK.", ""},
		{hotels, "What is the limit in Bodø?", "In Norway, other than in Oslo, it is 1,500 NOK.", ""},
		{hotels, "Is the limit in Oslo 1,500 NOK?", "Yes, the limit in Oslo is 1,500 NOK.", "1,500"},
		{hotels, "Is the limit in Oslo 1,900 NOK?", "Yes, the limit in Oslo is 1,900 NOK.", ""},
		{hotels, "We are 1,800 people in Oslo. What is the limit?", "For 1,800 people in Oslo it is 1,900 NOK.", ""},
		{hotels, "What is the limit in Oslo?", "For Oslo, Bergen and Stavanger, it is 1,900 NOK.", ""},

		{notice, "How long is the notice period for an employee after 6 years?", "The notice period is 2 months.", ""},
		{notice, "How long is the notice period for an employee after 6 years?", "The notice period is 1 month.", "1"},
		{notice, "How long is the notice period for an employee after 6 years?", "The notice period for an employee after 6 years is 4 months.", "4"},
		{notice, "How long is the notice period after 12 years?", "After 12 years, the notice period is 2 months.", "2"},
		{notice, "How long is the notice period after 3 years?", "After 3 years the notice period is 1 month.", ""},
		{notice, "How long is the notice period after 5 years?", "After 5 years it is 1 month or 2 months.", ""},
		{notice, "What is the notice in the trial period?", "In the trial period the notice is 14 days.", ""},
		{notice, "What is the notice in the trial period?", "The notice is 2 months.", "2"},
		{notice, "Notice?", "Notice periods: 5 to 10 years, 2 months; more than 10 years, 3 months.", ""},
		{notice, "Notice?", "For 5 to 10 years of employment it is 1 month.", "1"},
		{notice, "After 12 years, what is the notice by the employee?", "It is 4 months.", "4"},
		{notice, "After 12 years, what is the notice by Halden?", "It is 4 months.", ""},
		{notice, "Notice?", "With more than 10 years of employment it is 2 months.", "2"},
		{notice, "Notice?", "With more than 10 years it is 4 months, 1 month more than before.", ""},
		{flat, "How long is the notice after 12 years?", "It is 2 months.", "2"},
		{flat, "How long is the notice after 7 years?", "It is 3 months.", ""},

		{contacts, "Which extension has Finance?", "Finance has extension 4300.", ""},
		{contacts, "Which extension has Finance?", "Finance has extension 4100.", "4100"},
		{contacts, "Whom do I call about my laptop?", "Call the IT desk, extension 4711.", "4711"},
		{contacts, "Whom do I call about a lost device?", "The Security Office, extension 4711.", ""},
		{contacts, "What is the extension of Ingrid Solheim?", "4300", "4300"},
		{commute, "What is paid for bicycle leasing?", "Halden pays up to 9,000 NOK per year for bicycle leasing with a 36-month contract.", ""},
		{commute, "What is paid for bicycle leasing?", "Halden deducts 450 NOK per month.", "450"},
		{commute, "What does parking in Bergen cost?", "Parking in Bergen costs 450 NOK per month.", ""},
		{commute, "What does Halden pay for the public transport pass?", "60 percent of the monthly pass.", ""},
		{week, "How long is the security course on Wednesday?", "On Wednesday there is a course of 2 hours.", "2"},
		{week, "How long is the security course on Wednesday?", "The course takes three hours.", ""},
		{cities, "What is the hotel limit in Oslo?", "The hotel limit in Oslo is 1,500.", "1,500"},
		{cities, "What is the hotel limit in Oslo?", "The hotel limit in Oslo is 1,900.", ""},
		{cities, "What is paid for meals in Bergen?", "450", "450"},
		{cities, "What is paid for meals?", "Meals are 430 in Oslo and 410 in Bergen.", ""},
		{gapped, "What does the Team plan cost?", "It costs 60 EUR.", "60"},
		{gapped, "What does the Team plan cost?", "It costs 25 EUR and has 200 GB.", ""},
		{gapped, "What is the price of Team?", "It is 200.", "200"},
		{german, "Wie hoch ist der Höchstbetrag in München?", "In München sind es 120 EUR.", "120"},
		{german, "Wie hoch ist der Höchstbetrag in München?", "Der Höchstbetrag ist 160 EUR.", ""},
		{german, "Was gilt im übrigen Deutschland?", "Außerhalb von Berlin sind es 120 EUR.", ""},
		{german, "Was gilt in Berlin?", "Nicht mehr als 180 EUR.", "180"},
		{french, "Quel est le préavis ?", "Après 3 ans, le préavis est de 1 mois.", "1"},
		{french, "Quel est le préavis ?", "Après 3 ans, le préavis est de 2 mois.", ""},
		{levels, "What is the budget of level 2?", "The budget of level 2 is 500.", "500"},
		{levels, "What is the budget of level 2?", "The budget of level 2 is 700.", ""},
		{broken, "What is the limit in Bergen?", "The limit in Bergen is 1,900.", ""},
		{broken, "What is the limit in Stavanger?", "1,500", "1,500"},
		{hanzi, "奥斯陆的限额是多少?", "奥斯陆的限额是 2600。", "2600"},
		{hanzi, "奥斯陆的限额是多少?", "限额是 1900。", ""},
		{norsk, "Hva er satsen for overnatting?", "Satsen for overnatting er 430 kr.", "430"},
		{norsk, "Hva er satsen for overnatting?", "780 kr", ""},
		{dots, "What does the suite cost?", "The suite costs 2,300.", "2,300"},
		{dots, "What does the suite cost?", "4,100", ""},
		{nested, "What about Norway?", "In Norway it is 1,500.", ""},
		{nested, "What about Norway?", "In Norway it is 1,400.", "1,400"},
		{nested, "What about the north?", "Elsewhere in Norway it is 1,500.", "1,500"},
		{total, "What is paid?", "Rent is 900, the total is 1,200.", ""},
		{total, "What is the rent?", "The rent is 1,200.", "1,200"},
		{total, "What is the total?", "Rent is 900 and power 300, 1,200 in total.", ""},
		{stays, "How many nights in Oslo?", "Oslo had 12 nights in May and 9 in June.", ""},
		{stays, "How many nights in Oslo?", "Oslo had 7 nights.", "7"},
		{"The fee is 40 NOK.\nIt rose in 2020.\nParis pays 50 NOK.", "What does Oslo pay?", "Oslo pays 50 NOK.", ""},
	} {
		var wrong []string
		found := InOtherRows(c.statement, c.question, c.table, [][2]int{{0, len(c.table)}})
		for _, m := range found {
			wrong = append(wrong, m.Text)
			require.Equal(t, m.Text, c.statement[m.Start:m.End])
			require.Contains(t, []Kind{RowFact, ColumnFact}, m.Kind)
		}
		assert.Equal(t, c.wrong, strings.Join(wrong, " "), "%s %s\n%s", c.question, c.statement, c.table)
	}
}

func TestTheRightRowIsNamed(t *testing.T) {
	found := InOtherRows("The limit in Oslo is 2,100 NOK.", "", hotels, [][2]int{{0, len(hotels)}})
	require.Len(t, found, 1)
	require.Equal(t, "Oslo, Bergen, Stavanger 1,900", found[0].Row)
}

func TestOnlyTablesOfTheQuoteCount(t *testing.T) {
	const statement = "The limit in Oslo is 2,100 NOK."
	require.Empty(t, InOtherRows(statement, "", hotels, [][2]int{{0, 20}}))
	at := strings.Index(hotels, "Copenhagen")
	require.Len(t, InOtherRows(statement, "", hotels, [][2]int{{at, at + 20}}), 1, "a quote of one row, its table is in the passage")
	prose := "In Oslo, 2,100 NOK were paid before.\n\n"
	require.Empty(t, InOtherRows(statement, "", prose+hotels, [][2]int{{0, len(prose) + len(hotels)}}), "prose has it, too")
	value, _ := arith.Eval("2100")
	require.Empty(t, InOtherRows(statement, "", hotels, [][2]int{{0, len(hotels)}}, arith.Number{Value: value}), "computed")
}

func FuzzInOtherRows(f *testing.F) {
	for _, table := range []string{hotels, notice, contacts, cities, gapped, flat, broken, hanzi, norsk, dots} {
		f.Add("The limit in Oslo is 2,100 NOK, after 6 years 2 months.", "What about Team?", table)
	}
	f.Fuzz(func(t *testing.T, statement, question, evidence string) {
		for _, m := range InOtherRows(statement, question, evidence, [][2]int{{0, len(evidence)}}) {
			require.Equal(t, m.Text, statement[m.Start:m.End])
		}
		for _, table := range tablesOf(evidence) {
			require.Less(t, table.start, table.end)
			require.Greater(t, len(table.rows), 1)
		}
	})
}

func BenchmarkInOtherRows(b *testing.B) {
	for b.Loop() {
		InOtherRows("The hotel limit per night in Oslo is 2,100 NOK.", "What is the hotel limit per night in Oslo?", hotels, [][2]int{{0, len(hotels)}})
	}
}
