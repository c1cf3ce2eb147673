package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"ragd/llm/tokenizer"
)

// writer writes rules of a company that does not exist: text with words, names and numbers like that of a handbook, as much as is needed and the same in
// every run.
type writer struct{ rand *rand.Rand }

func newWriter(seed uint64) *writer { return &writer{rand.New(rand.NewPCG(seed, 1))} }

func (w *writer) pick(words ...string) string { return words[w.rand.IntN(len(words))] }

// sentence is one rule.
func (w *writer) sentence() string {
	place := w.pick("Oslo", "Porto", "Lyon", "Graz", "Turku", "Bergen", "Cork", "Leipzig", "Gdansk", "Utrecht")
	who := w.pick("employees", "managers", "contractors", "interns", "team leads", "auditors", "drivers", "visitors")
	switch w.rand.IntN(6) {
	case 0:
		return fmt.Sprintf("In %s, %s may claim up to %d euros per %s for %s.", place, who, 10+w.rand.IntN(900), w.pick("night", "day", "week", "trip"),
			w.pick("hotels", "meals", "train tickets", "parking", "equipment", "training"))
	case 1:
		return fmt.Sprintf("Section %d.%d says that %s must report %s to the %s office within %d days.", 1+w.rand.IntN(40), 1+w.rand.IntN(9), who,
			w.pick("accidents", "lost badges", "gifts", "sick leave", "expenses", "travel plans"), place, 2+w.rand.IntN(60))
	case 2:
		return fmt.Sprintf("The %s building is open from %d to %d o'clock; %s need a %s badge after that.", place, 5+w.rand.IntN(4), 17+w.rand.IntN(5), who,
			w.pick("red", "blue", "green", "yellow", "white"))
	case 3:
		return fmt.Sprintf("Requests for %s are decided by the %s of the %s team, usually before the %dth of the month.",
			w.pick("remote work", "parental leave", "a new laptop", "overtime", "a transfer"),
			w.pick("head", "secretary", "treasurer", "planner"), place, 4+w.rand.IntN(24))
	case 4:
		return fmt.Sprintf("Since %d the limit for %s has been %d hours per %s, and exceptions need a signature.", 1990+w.rand.IntN(36),
			w.pick("overtime", "travel", "on-call duty", "night shifts", "meetings"), 2+w.rand.IntN(70), w.pick("week", "month", "quarter"))
	}
	return fmt.Sprintf("Whoever %s in %s shall %s %d and keep the %s for %d years.",
		w.pick("orders goods", "signs a contract", "meets a customer", "repairs a machine", "ships a parcel"), place,
		w.pick("fill in form", "call extension", "write to box", "open ticket"), 100+w.rand.IntN(900),
		w.pick("receipt", "minutes", "photographs", "key"), 1+w.rand.IntN(10))
}

// words writes whole sentences until there are n words.
func (w *writer) words(n int) string {
	var b strings.Builder
	for count := 0; count < n; {
		s := w.sentence()
		count += len(strings.Fields(s))
		b.WriteString(s)
		b.WriteByte(' ')
	}
	return strings.TrimSuffix(b.String(), " ")
}

// tokens writes exactly n tokens: the text of n words, which are at least n tokens, cut.
func (w *writer) tokens(t *tokenizer.Tokenizer, n int) []int32 {
	return t.Encode(w.words(n), false, false)[:n]
}
