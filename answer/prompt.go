package answer

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"ragd/llm"
	"ragd/llm/chat"
	"ragd/llm/grammar"
	"ragd/retrieve"
)

//go:embed prompts/system.txt
var systemText string

var systemTemplate = template.Must(template.New("system").Parse(systemText))

//go:embed prompts/rewrite.txt
var rewriteText string

// Budget says how the context window was spent, in the model's own tokens.
type Budget struct {
	Context  int // the window
	System   int // rules and chat markup
	Passages int
	History  int
	Question int
	Answer   int // reserved
	Dropped  int // retrieved passages that did not fit
	Turns    int // turns of the history that did fit
}

// prompt is what the model gets.
type prompt struct {
	messages []chat.Message
	tokens   []llm.Token // the same as tokens; none for an external engine
	text     string      // the same as text
	size     int         // the same in tokens
	sources  []Source
	budget   Budget

	documents string // the passages as written
	question  string // as written
	turns     []Turn // of the history, that fit
	again     bool   // without the rule for refusals
}

// prompter writes prompts for one model.
type prompter struct {
	engine    *llm.Engine
	context   int // tokens
	system    string
	insisting string // the same without the rule for refusals
	vocab     *grammar.Vocab
	overhead  int // tokens of the system message and the chat markup
}

func newPrompter(engine *llm.Engine) *prompter {
	p := &prompter{engine: engine, context: engine.ContextTokens(), system: systemPrompt(Refusal), insisting: systemPrompt("")}
	if engine.External() == "" {
		p.vocab = engine.Vocab()
	}
	p.overhead = p.count(p.system) + 32 // 32: the markup of all families is shorter; build counts the prompt itself
	return p
}

// systemPrompt are the rules; without a refusal there is none about when to refuse.
func systemPrompt(refusal string) string {
	var text strings.Builder
	if err := systemTemplate.Execute(&text, refusal); err != nil {
		panic(fmt.Sprintf("answer: embedded system prompt: %v", err)) // our own file: a bug
	}
	return strings.TrimSpace(text.String())
}

func (p *prompter) count(text string) int { return p.engine.CountTokens(text) }

// encode writes messages as the engine gets them.
func (p *prompter) encode(messages []chat.Message) (prompt, error) {
	w := prompt{messages: messages}
	if p.vocab == nil {
		for _, m := range messages {
			w.text += m.Role + ": " + m.Content + "\n"
		}
		w.size = p.count(w.text) + 8*len(messages) // 8: the markup of all families is shorter
		return w, nil
	}
	var err error
	if w.tokens, err = p.engine.Chat().Encode(messages, true); err != nil {
		return prompt{}, fmt.Errorf("answer: write the prompt: %w", err)
	}
	w.text, w.size = string(p.engine.Tokenizer().Decode(w.tokens, false)), len(w.tokens)
	return w, nil
}

// dotted is a word with a full stop inside, like a file's name.
var dotted = regexp.MustCompile(`[\pL\pN]+(?:[.!?][\pL\pN]+)*[.!?]\pL`)

// grammar admits text whose markers name the sources, or refusal when it is not empty; an external engine has none. Words with a full stop inside are those
// of the sources and the question.
func (p *prompter) grammar(sources []Source, question, refusal string) *grammar.Grammar {
	if p.vocab == nil {
		return nil
	}
	words := dotted.FindAllString(question, -1)
	for i := range sources {
		s := &sources[i].Passage
		words = append(words, dotted.FindAllString(s.Title+"\n"+s.Heading+"\n"+s.Text, -1)...)
	}
	return grammar.Cited(p.vocab, grammar.CitedOptions{Passages: len(sources), EverySentence: true, Refusal: refusal, Dotted: words})
}

// check refuses a question that cannot fit whatever is retrieved.
func (p *prompter) check(q Question) error {
	room := p.context - p.overhead - q.MaxTokens
	if n := p.count(q.Text); n > room/2 {
		return fmt.Errorf("%w: the question has %d tokens, at most %d fit beside the documents: shorten it, or serve with a larger --context (now %d)",
			ErrInvalid, n, max(room/2, 0), p.context)
	}
	return nil
}

// build fits passages, history and question into the window: passages up to passageTokens in the order given, then the latest turns of the history.
func (p *prompter) build(q Question, ranked []retrieve.Scored, passageTokens int) (prompt, error) {
	b := Budget{Context: p.context, Question: p.count(q.Text), Answer: q.MaxTokens}
	room := p.context - p.overhead - b.Answer - b.Question
	documents, sources := p.documents(ranked, min(passageTokens, room), &b)
	turns := p.turns(q.History, room-b.Passages, &b)
	for {
		w, err := p.encode(p.messages(p.system, documents, turns, q.Text))
		if err != nil {
			return prompt{}, err
		}
		if w.size+q.MaxTokens <= p.context {
			b.System = w.size - b.Passages - b.History - b.Question
			w.sources, w.budget, w.documents, w.turns, w.question = sources, b, documents, turns, q.Text
			return w, nil
		}
		// The parts were counted one by one; joined, they can be a few tokens longer. Give up the oldest turn, then the last passage.
		switch {
		case len(turns) > 0:
			turns = turns[1:]
			b.Turns--
		case len(sources) > 1:
			documents, sources = p.documents(ranked[:len(sources)-1], passageTokens, &b)
			b.Dropped = len(ranked) - len(sources)
		default:
			return prompt{}, fmt.Errorf("%w: question and passage do not fit into %d tokens: serve with a larger --context", ErrInvalid, p.context)
		}
	}
}

// documents takes the passages that fit into room tokens, most relevant first, and writes them as the model sees them. The most relevant one stands
// last, next to the question, and the others before it in their order: small models read best what is near the question (docs/eval.md has the effect).
func (p *prompter) documents(ranked []retrieve.Scored, room int, b *Budget) (string, []Source) {
	var sources []Source
	b.Passages = 0
	for i := range ranked {
		n := p.count(documentText(i+1, &ranked[i].Passage))
		if b.Passages+n > room && len(sources) > 0 {
			break
		}
		b.Passages += n
		sources = append(sources, Source{Marker: i + 1, Rank: i + 1, Scored: ranked[i]})
	}
	b.Dropped = len(ranked) - len(sources)
	return writeDocuments(sources), sources
}

// writeDocuments writes the passages in the order in which the model reads them. The marker is the rank, so that an answer mostly begins with [1].
func writeDocuments(sources []Source) string {
	var text strings.Builder
	for i := range sources {
		s := &sources[(i+1)%len(sources)]
		text.WriteString(documentText(s.Marker, &s.Passage))
	}
	return text.String()
}

// documentText is one numbered passage. Text that looks like a marker at the start of a line cannot be told from ours by the model, so brackets around
// bare numbers are the only thing that is written differently from the source; the quote shown to people is cut from the source itself.
func documentText(marker int, p *retrieve.Passage) string {
	title := p.Title
	switch {
	case p.Heading == "" || p.Heading == title:
	case strings.HasPrefix(p.Heading, title+" > "): // the path of headings mostly begins with the title
		title = p.Heading
	default:
		title += " > " + p.Heading
	}
	if p.Page > 0 {
		title = fmt.Sprintf("%s, page %d", title, p.Page)
	}
	return fmt.Sprintf("[%d] %s\n%s\n\n", marker, title, bareMarkers.ReplaceAllString(strings.TrimSpace(p.Text), "($1)"))
}

// turns keeps the latest turns that fit into room tokens, at most a quarter of the window.
func (p *prompter) turns(history []Turn, room int, b *Budget) []Turn {
	room = min(room, p.context/4)
	from := len(history)
	for from > 0 {
		n := p.count(history[from-1].Question) + p.count(history[from-1].Answer) + 16 // 16: markup of two messages
		if b.History+n > room {
			break
		}
		b.History += n
		from--
	}
	b.Turns = len(history) - from
	return history[from:]
}

// messages lays the prompt out: what is shared by most questions comes first.
func (p *prompter) messages(system, documents string, turns []Turn, question string) []chat.Message {
	m := []chat.Message{{Role: "system", Content: system}}
	head := "Documents:\n\n" + documents
	for _, t := range turns {
		m = append(m, chat.Message{Role: "user", Content: head + "Question: " + t.Question}, chat.Message{Role: "assistant", Content: t.Answer})
		head = ""
	}
	return append(m, chat.Message{Role: "user", Content: head + "Question: " + question})
}

// ask returns base with another question in place of its own; everything before it is shared.
func (p *prompter) ask(base prompt, question string) (prompt, error) {
	system := p.system
	if base.again {
		system = p.insisting
	}
	w, err := p.encode(p.messages(system, base.documents, base.turns, question))
	if err != nil {
		return prompt{}, err
	}
	base.messages, base.tokens, base.text, base.size, base.question = w.messages, w.tokens, w.text, w.size, question
	return base, nil
}

// again returns base with another question and without the rule for refusals. Nothing of it is shared: small models keep to the rule that they have
// read, so that it must not stand there.
func (p *prompter) again(base prompt, question string) (prompt, error) {
	base.again = true
	return p.ask(base, question)
}

// rewrite is the prompt of an answer with other passages, whose markers stay.
func (p *prompter) rewrite(a *Answer, sources []Source) ([]llm.Token, error) {
	history := a.Trace.Question.History
	turns := history[max(0, len(history)-a.Budget.Turns):]
	written, err := p.ask(prompt{documents: writeDocuments(sources), turns: turns, again: a.Trace.Again}, a.Trace.Asked)
	return written.tokens, err
}

// indexFrom is strings.Index from a byte on.
func indexFrom(text, part string, from int) int {
	if i := strings.Index(text[from:], part); i >= 0 {
		return from + i
	}
	return -1
}
