package verify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What begins an item of a list has a capital without being a name; names inside one are still looked for, and so are numbers.
func TestItemsOfListsAreNoNames(t *testing.T) {
	const source = "Retain every receipt and bring the card. The office in Oslo is open."
	for statement, want := range map[string]string{
		"The handbook lists: Bring your card":                                                 "",
		"The handbook lists: Keep your card, Ask before a journey, Write down what you paid.": "",
		"The handbook lists: Keep your card; Ask first; and Write it down.":                   "",
		"The handbook lists: Keep your card and Ask before a journey.":                        "",
		"The handbook lists (1) Keep your card, (2) Ask first and (3) Write it down.":         "",
		"The handbook lists a) Keep your card b) Ask first":                                   "",
		"The handbook lists (i) Keep your card; (ii) Ask first.":                              "",
		"1) Keep your card 2) Ask first":                                                      "",
		"It lists: - Keep your card - Ask first":                                              "",
		"- Keep your card\n- Ask first":                                                       "",
		"It says ‘Keep your card’, 'Ask first' and „Write it down“.":                          "",
		"I think that I'm sure and I’ve read it.":                                             "",

		"The offices are: Oslo, Bergen and Paris.":                    "Bergen Paris",
		"The offices are: Oslo in Norway, Paris in France.":           "Norway Paris France",
		"It lists: Keep your card, Ask Miller, Write it down.":        "Ask Miller",
		"It lists: Keep your card, Paris.":                            "Paris",
		"The office (1) in Paris":                                     "1 Paris",
		"The office - Paris - is open, as the other - Lyon - was.":    "Paris Lyon",
		"It lists (1) Ask in Paris, (2) Keep 12 receipts.":            "Paris 12",
		"It lists (1) Keep your card, (3) Ask first.":                 "1 Keep 3 Ask",
		"The limit is (2) of (1) and (2).":                            "2 1 2",
		"The office's opening is near Miller's house, 'tis in Paris.": "Miller's Paris",
	} {
		var found []string
		for _, f := range Missing(statement, source, "") {
			require.Equal(t, f.Text, statement[f.Start:f.End])
			found = append(found, f.Text)
		}
		require.Equal(t, want, strings.Join(found, " "), statement)
	}
}
