package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A comparison excuses the number that something is compared with, and the one by which it differs; no others.
func TestOnlyWhatIsComparedWithIsExcused(t *testing.T) {
	const (
		oslo   = "What is the hotel limit in Oslo?"
		fristn = "| Betriebszugehörigkeit | Frist |\n|---|---|\n| bis zu 2 Jahre | 1 Monat |\n| mehr als 2 Jahre | 3 Monate |"
		plazos = "| Antigüedad | Preaviso |\n|---|---|\n| hasta 2 años | 1 mes |\n| más de 2 años | 3 meses |"
	)
	for _, c := range []struct{ table, question, statement, wrong string }{
		{hotels, oslo, "In Oslo it is 2,100 NOK, less than the 2,600 NOK of other capitals.", "2,100"},
		{hotels, oslo, "It is 2,100 NOK, less than the 2,600 NOK of other capitals.", "2,100"},
		{hotels, oslo, "It is 1,900 NOK, less than in other capitals, where it is 2,600 NOK.", ""},
		{hotels, oslo, "Rather than 1,500 NOK, it is 1,900 NOK.", ""},
		{hotels, oslo, "Rather than 1,500 NOK, it is 2,600 NOK.", "2,600"},
		{hotels, oslo, "Instead of 1,900 NOK it is 1,500 NOK now.", "1,500"},
		{hotels, oslo, "In Oslo it is 2,600 NOK, less than in Paris.", "2,600"},
		{hotels, oslo, "In Oslo it is 1,900 NOK, less than in Paris.", ""},
		{hotels, oslo, "In Oslo it is 1,900 NOK, compared with 2,600 NOK in Paris.", ""},
		{hotels, oslo, "Compared with Paris, the limit is lower: 1,900 NOK.", ""},
		{hotels, oslo, "Compared with Paris, the limit is lower: 1,500 NOK.", "1,500"},
		{hotels, oslo, "The limit is no more than 2,600 NOK.", "2,600"},
		{hotels, oslo, "The limit is more than 1,500 NOK.", ""},
		{hotels, oslo, "The difference between Oslo and Paris is 1,500 NOK.", ""},
		{hotels, oslo, "In Oslo it is 1,500 NOK; the difference is small.", "1,500"},
		{hotels, oslo, "It is other than what was said: 2,100 NOK.", "2,100"},
		{hotels, oslo, "In Oslo it is 1,900 NOK, while others get 2,600 NOK.", ""},
		{hotels, oslo, "In Oslo it is 1,900 NOK, whereas it is 2,600 NOK in large capitals.", ""},
		{hotels, oslo, "In Oslo it is 2,100 NOK, whereas it is 2,600 NOK in large capitals.", "2,100 2,600"},

		{notice, "Notice?", "After 12 years it is 3 months, 1 month more than before.", ""},
		{notice, "Notice?", "After 12 years it is 2 months, 1 month more than before.", "2"},
		{notice, "Notice?", "After 3 years it is 1 month or more.", ""},
		{notice, "Notice?", "With longer than 10 years it is 4 months.", ""},
		{notice, "Notice?", "With longer than 10 years it is 2 months.", "2"},
		{notice, "Notice after more than 10 years?", "It is 2 months.", "2"},
		{notice, "Notice after more than 10 years?", "It is 4 months.", ""},
		{notice, "Notice after 10 years or more?", "It is 4 months.", ""},
		{notice, "Notice after less than 5 years?", "It is 3 months.", "3"},
		{notice, "Notice after under 5 years?", "It is 1 month.", ""},
		{notice, "Notice after less than 10 years and more than 5?", "It is 4 months.", "4"},
		{german, "Wie hoch ist der Höchstbetrag?", "Als Mitarbeiter bekommt man in Berlin 120 EUR.", "120"},
		{german, "Wie hoch ist der Höchstbetrag?", "In Berlin sind es 160 EUR, mehr als die 120 EUR im übrigen Land.", ""},
		{german, "Wie hoch ist der Höchstbetrag?", "In Berlin sind es 180 EUR, mehr als die 120 EUR im übrigen Land.", "180"},
		{fristn, "Welche Frist gilt?", "Wer länger als 2 Jahre da ist, hat 1 Monat.", "1"},
		{fristn, "Welche Frist gilt?", "Wer länger als 2 Jahre da ist, hat 3 Monate.", ""},
		{plazos, "¿Qué preaviso hay?", "Los empleados que llevan más de 2 años tienen 1 mes.", "1"},
		{plazos, "¿Qué preaviso hay?", "Los empleados que llevan más de 2 años tienen 3 meses.", ""},
		{plazos, "¿Qué preaviso hay?", "Con más de 2 años hay 3 meses, más que el 1 mes de otros.", ""},
	} {
		var wrong []string
		for _, m := range InOtherRows(c.statement, c.question, c.table, [][2]int{{0, len(c.table)}}) {
			wrong = append(wrong, m.Text)
		}
		assert.Equal(t, c.wrong, strings.Join(wrong, " "), "%s %s", c.question, c.statement)
	}
}
