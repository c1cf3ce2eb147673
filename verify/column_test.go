package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A number of the right row must stand in the right column, too, where one is named and the table says which is which.
func TestANumberOfAnotherColumnIsFound(t *testing.T) {
	const (
		drawn  = "Length of employment Notice by the employee Notice by Halden\nUp to 5 years 1 month 2 months\n5 to 10 years 2 months 3 months\nMore than 10 years 3 months 4 months"
		blurry = "Length of Employment Notice Employee Notice Halden Ltd\nUp to 5 years 1 month 2 months\n5 to 10 years 2 months 3 months"
		years  = "Item 2024 2025\nRent 900 950\nPower 300 320"
		tabbed = "Item\t2024\t2025\nRent\t900\t950\nPower\t300\t320"
		trips  = "Place Hotel Meals\nOslo 1,900 430\nBergen 1,500 410\nParis 2,600 520"
		dienst = "| Dienstzeit | Frist Arbeitnehmer | Frist Arbeitgeber |\n|---|---|---|\n| bis 5 Jahre | 1 Monat | 2 Monate |\n| über 5 Jahre | 2 Monate | 3 Monate |"
		sizes  = "| Plan | Storage | Files |\n|---|---|---|\n| Basic | 50 GB | 500 |\n| Team | 200 GB | 50 |"
	)
	for _, c := range []struct{ table, question, statement, wrong string }{
		{notice, "What is the employer's notice period after 6 years?", "The notice period is 2 months.", "2"},
		{notice, "What is the employer's notice period after 6 years?", "The notice period is 3 months.", ""},
		{notice, "How much notice must Halden give after 6 years?", "After 6 years it is 2 months.", "2"},
		{notice, "How much notice must Halden give after 6 years?", "After 6 years it is 3 months.", ""},
		{notice, "What notice do employees give after 6 years?", "3 months", "3"},
		{notice, "What notice do employees give after 6 years?", "2 months", ""},
		{notice, "What notice does Halden give an employee after 6 years?", "2 months", ""}, // both are named
		{notice, "What is the notice after 6 years?", "2 months", ""},
		{notice, "What is the notice after 6 years?", "The employee's notice is 3 months.", "3"},
		{notice, "What is the notice after 6 years?", "The employee's notice is 2 months, and Halden's is 3 months.", ""},
		{notice, "What is the notice after 6 years?", "The employee's notice is 3 months, and Halden's is 2 months.", "3 2"},
		{notice, "What is the notice after 6 years?", "The notice of employee and Halden is 3 and 2 months.", ""},
		{notice, "What is the employee's notice after 6 years?", "It is 2 months, for Halden it is 3 months.", ""},
		{notice, "What is the employee's notice in the trial period?", "It is 14 days.", ""},
		{notice, "What is the employer's notice?", "It is between 2 and 4 months.", ""},
		{flat, "What is the employer's notice after 6 years?", "It is 2 months.", "2"},
		{flat, "What is the employer's notice after 6 years of employment?", "It is 3 months.", ""},
		{flat, "What is the employee's notice after 6 years of employment?", "It is 3 months.", "3"},
		{flat, "How long is the notice after 6 years of employment?", "It is 3 months.", ""},
		{drawn, "What is the notice by Halden after 6 years?", "It is 2 months.", "2"},
		{drawn, "What is the notice by Halden after 6 years?", "It is 3 months.", ""},
		{blurry, "What is the notice of Halden after 6 years?", "It is 2 months.", ""}, // nobody can say where its headers end
		{years, "What was the rent in 2025?", "The rent was 900.", "900"},
		{years, "What was the rent in 2025?", "The rent was 950.", ""},
		{years, "What was the rent in 2024?", "In 2024 the rent was 950.", "950"},
		{tabbed, "What was the rent in 2025?", "The rent was 900.", "900"},
		{tabbed, "What was the power in 2024?", "Power was 320, 20 more than in 2024.", "320"},
		{trips, "What is paid for meals in Bergen?", "1,500 NOK", "1,500"},
		{trips, "What is paid for meals in Bergen?", "410 NOK", ""},
		{trips, "What is paid for a hotel in Bergen?", "410 NOK", "410"},
		{trips, "What is paid in Bergen?", "410 NOK", ""},
		{trips, "What is paid in Bergen besides the hotel?", "410 NOK", ""},
		{dienst, "Welche Frist hat der Arbeitgeber nach 6 Jahren?", "Die Frist ist 2 Monate.", "2"},
		{dienst, "Welche Frist hat der Arbeitgeber nach 6 Jahren?", "Die Frist ist 3 Monate.", ""},
		{dienst, "Welche Frist haben Arbeitnehmer nach 6 Jahren?", "Die Frist ist 3 Monate.", "3"},
		{sizes, "How much storage has Team?", "It has 50.", "50"},
		{commute, "What does Halden pay for bicycle leasing?", "It takes a 36-month contract.", ""}, // a number of another kind
	} {
		var wrong []string
		for _, m := range InOtherRows(c.statement, c.question, c.table, [][2]int{{0, len(c.table)}}) {
			require.Equal(t, m.Text, c.statement[m.Start:m.End])
			wrong = append(wrong, m.Text)
		}
		assert.Equal(t, c.wrong, strings.Join(wrong, " "), "%s %s\n%s", c.question, c.statement, c.table)
	}
}

func TestTheRightColumnIsNamed(t *testing.T) {
	found := InOtherRows("It is 2 months.", "What is the employer's notice after 6 years?", notice, [][2]int{{0, len(notice)}})
	require.Len(t, found, 1)
	require.Equal(t, ColumnFact, found[0].Kind)
	require.Equal(t, "Notice by Halden", found[0].Place)
	require.Equal(t, "5 to 10 years; Notice by the employee: 2 months; Notice by Halden: 3 months", found[0].Row)
}

func TestHeadersAreCutWhereThatIsCertain(t *testing.T) {
	for text, want := range map[string]string{
		"Place Limit per night (NOK)": "Place|Limit per night (NOK)",
		"place limit":                 "place|limit",
		"Ort Höchstbetrag pro Nacht":  "",
		"Length of employment":        "",
		"Place":                       "",
	} {
		require.Equal(t, want, strings.Join(splitHeader(text, 1), "|"), text)
	}
	for text, want := range map[string]string{
		"Length of employment Employee Employer":                       "Length of employment|Employee|Employer",
		"Length of employment Notice by the employee Notice by Halden": "Length of employment|Notice by the employee|Notice by Halden",
		"Length of Service Notice by Staff Notice by Halden":           "Length of Service|Notice by Staff|Notice by Halden",
		"Notice by Length Notice by Staff Notice by Halden":            "",
		"Length Of Employment Employee Employer":                       "",
		"length of employment":                                         "",
	} {
		require.Equal(t, want, strings.Join(splitHeader(text, 2), "|"), text)
	}
}
