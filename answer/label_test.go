package answer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// titled are sources as documents have them, with titles and headings.
func titled() []Source {
	all := sources("2. Hotels\n\nThe limit in Oslo is 1,900 NOK per night.", "## Notice periods\n\nThe notice period is 2 months.", "The Seine is a river in France.\n\nThe employee handbook of Halden applies to all.",
		"The north gate is closed at night.")
	for i, s := range []struct{ path, title, heading string }{
		{"examples/travel-policy.pdf", "Travel and Expense Policy", "2. Hotels"}, {"handbook.md", "Employee Handbook", "Employee Handbook > Notice periods"}, {"seine.txt", "Seine", ""},
		{"gate.txt", "The north gate is closed at night", ""},
	} {
		p := &all[i].Passage
		p.Path, p.Title, p.Heading, p.Page = s.path, s.title, s.heading, 1
	}
	return all
}

func TestTheNameOfAPlaceIsNoStatement(t *testing.T) {
	l := labelsOf(titled())
	for _, c := range []struct {
		statement, question string
		nothing             bool
	}{
		{"Travel and Expense Policy, page 1.", "What is the limit?", true},
		{"Travel and Expense Policy", "What is the limit?", true},
		{"Travel and Expense Policy > 2. Hotels, page 1", "What is the limit?", true},
		{"See the **Travel and Expense Policy**, pages 1 and 2.", "What is the limit?", true},
		{"According to section 2. Hotels of travel-policy.pdf:", "What is the limit?", true},
		{"Page 3.", "What is the limit?", true},
		{"Notice periods", "How long is it?", true},
		{"Employee Handbook > Notice periods", "How long is it?", true},
		{"handbook.md", "How long is it?", true},
		{"Employee Handbook", "What does the employee handbook say about notice?", true}, // although a sentence names it
		{"Seine, page 1", "Which river is it?", true},

		{"Travel and Expense Policy, page 1: the limit is 1,900 NOK.", "What is the limit?", false},
		{"The Travel and Expense Policy applies.", "What is the limit?", false},
		{"Travel and Expense Policy, page 1.", "Which document has the limit?", false},
		{"Travel and Expense Policy, page 1.", "On what page is the limit?", false},
		{"Travel and Expense Policy, page 1.", "Where is the limit described?", false},
		{"Employee Handbook", "What is the document called?", false},
		{"The Seine.", "What flows through Paris?", false},
		{"Seine", "Is it the Seine or the Loire?", false},
		{"Employee Handbook", "What applies to all?", false},
		{"The north gate is closed at night.", "What is closed?", false},
		{"2 months.", "How long is it?", false},
		{"1,900", "What is the limit?", false},
		{"3 pages", "How many pages are there?", false},
		{"See the document.", "What is the limit?", false},
		{"", "", false},
		{"Hotels in Oslo", "What is limited?", false},
	} {
		require.Equal(t, c.nothing, l.only(c.statement, c.question), "%s %s", c.question, c.statement)
	}
}

func TestTheNameOfAPlaceIsLeftOutOfTheAnswer(t *testing.T) {
	for draft, want := range map[string]string{
		"Travel and Expense Policy, page 1. [1]":                                                           "",
		"Travel and Expense Policy, page 1 [1]. Page 2 [2].":                                               "",
		"Travel and Expense Policy, page 1. [1] The limit in Oslo is 1,900 NOK. [1]":                       "The limit in Oslo is 1,900 NOK. [1]",
		"Travel and Expense Policy, page 1 [1]. The limit in Oslo is 1,900 NOK [1].":                       "The limit in Oslo is 1,900 NOK [1].",
		"The limit in Oslo is 1,900 NOK. [1] Travel and Expense Policy, page 1. [1]":                       "The limit in Oslo is 1,900 NOK. [1]",
		"The limit in Oslo is 1,900 NOK [1]. Travel and Expense Policy, page 1 [1].":                       "The limit in Oslo is 1,900 NOK [1].",
		"The limit in Oslo is 1,900 NOK [1]. Travel and Expense Policy [1]. Notice is 2 months [2].":       "The limit in Oslo is 1,900 NOK [1]. Notice is 2 months [2].",
		"The limit in Oslo is 1,900 NOK. [1] Notice periods. [2][1]\n\nThe notice period is 2 months. [2]": "The limit in Oslo is 1,900 NOK. [1]\n\nThe notice period is 2 months. [2]",
	} {
		for n := 1; n < 20; n += 6 {
			r := &run{Answerer: &Answerer{}}
			c := newCiter(titled(), nil, "What is the limit in Oslo, and how long is notice?", nil)
			for text := draft; text != ""; text = text[min(n, len(text)):] {
				c.push(text[:min(n, len(text))])
			}
			c.flush()
			r.settle(c, "stop")
			r.compose()
			require.Equal(t, want, r.answer.Text, draft)
			require.Empty(t, r.answer.Unsupported)
			for _, s := range r.answer.Statements {
				require.True(t, s.Supported, s.Why)
			}
		}
	}
	// An answer that is nothing else is none.
	r := &run{Answerer: &Answerer{}, yield: func(Event, error) bool { return true }}
	c := newCiter(titled(), nil, "What is the limit in Oslo?", nil)
	c.push("Travel and Expense Policy, page 1. [1]")
	r.settle(c, "stop")
	r.compose()
	require.Empty(t, r.answer.Citations, "the answer is withheld for that")
	require.Empty(t, r.answer.Text)
}
