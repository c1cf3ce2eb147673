package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ragd/llm"
	"ragd/llm/chat"
	"ragd/retrieve/analysis"
	"ragd/verify"
)

// Variants are the ways in which questions are put differently to see whether the answer stays right.
var Variants = []string{"paraphrase", "word", "order", "position", "noise"}

// Vary makes questions that ought to be answered like those of a set. Every question of a run comes with its passages, so that only what is varied
// differs: those that are right, and others that share most words with it.
type Vary struct {
	Kinds  []string
	Noise  []int       // how many wrong passages stand beside the right ones; the second is what the other kinds have
	Engine *llm.Engine // paraphrases; needed for these alone
}

// Make returns the set with its variants. Its questions are those of d that can be answered, at most limit of them when it is positive.
func (v *Vary) Make(ctx context.Context, d *Dataset, limit int, progress func(done, total int)) (*Dataset, error) {
	out := &Dataset{Name: d.Name + "-varied", Gains: map[string]map[string]float64{}}
	for _, q := range d.Shuffled() {
		if d.IsAnswerable(&q) && len(q.Answers) > 0 && q.Of == "" && (limit <= 0 || len(out.Queries) < limit) {
			out.Queries = append(out.Queries, q)
		}
	}
	terms := make([]map[string]bool, len(d.Corpus))
	for i, p := range d.Corpus {
		terms[i] = set(analysis.Terms(p.Title+"\n"+p.Text, "en"))
	}
	for i, q := range slices.Clone(out.Queries) {
		right, wrong := d.divided(&q, terms, slices.Max(append(v.Noise, 0)))
		base := v.with(q, right, wrong, v.usual())
		out.Queries[i] = base
		for _, kind := range v.Kinds {
			varied, err := v.make(ctx, kind, base, right, wrong)
			if err != nil {
				return nil, fmt.Errorf("eval: vary question %s: %w", q.ID, err)
			}
			out.Queries = append(out.Queries, varied...)
		}
		if progress != nil {
			progress(i+1, len(out.Queries))
		}
	}
	for _, q := range out.Queries {
		if gains := d.Gains[cmp.Or(q.Of, q.ID)]; gains != nil {
			out.Gains[q.ID] = gains
		}
	}
	return out, nil
}

func (v *Vary) usual() int { return v.Noise[min(1, len(v.Noise)-1)] }

// divided returns the right passages of q and the n wrong ones that share most terms with it.
func (d *Dataset) divided(q *Query, terms []map[string]bool, n int) (right, wrong []Passage) {
	if q.Given != nil {
		for _, p := range q.Given {
			if Contains(p.Text, q.Answers) {
				right = append(right, p)
			} else {
				wrong = append(wrong, p)
			}
		}
		return right, wrong
	}
	type near struct{ at, shared int }
	var all []near
	want := set(analysis.Terms(q.Text, "en"))
	for i, p := range d.Corpus {
		if d.Gains[q.ID][p.ID] > 0 {
			right = append(right, p)
			continue
		}
		shared := 0
		for t := range want {
			if terms[i][t] {
				shared++
			}
		}
		if !Contains(p.Text, q.Answers) { // it would be right, too
			all = append(all, near{i, shared})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(b.shared, a.shared) })
	for _, x := range all[:min(n, len(all))] {
		wrong = append(wrong, d.Corpus[x.at])
	}
	return right, wrong
}

func set(terms []string) map[string]bool {
	all := make(map[string]bool, len(terms))
	for _, t := range terms {
		all[t] = true
	}
	return all
}

// with is q with its right passages and n wrong ones.
func (v *Vary) with(q Query, right, wrong []Passage, n int) Query {
	q.Given = slices.Concat(right, wrong[:min(n, len(wrong))])
	return q
}

func variant(base Query, kind string) Query {
	base.Of, base.Variant, base.ID = base.ID, kind, base.ID+"~"+strings.ReplaceAll(kind, " ", "")
	return base
}

func (v *Vary) make(ctx context.Context, kind string, base Query, right, wrong []Passage) ([]Query, error) {
	switch kind {
	case "paraphrase":
		text, err := paraphrase(ctx, v.Engine, base.Text)
		if err != nil || text == "" {
			return nil, err
		}
		q := variant(base, kind)
		q.Text = text
		return []Query{q}, nil
	case "word":
		q := variant(base, kind)
		q.Text = misspelt(base.Text)
		return []Query{q}, nil
	case "order":
		q := variant(base, kind)
		q.Given = slices.Clone(base.Given)
		rng := rand.New(rand.NewPCG(7, uint64(1e9*share(base.ID))))
		rng.Shuffle(len(q.Given), func(i, j int) { q.Given[i], q.Given[j] = q.Given[j], q.Given[i] })
		return []Query{q}, nil
	case "position":
		return v.positions(base, right, wrong), nil
	case "noise":
		var all []Query
		for _, n := range v.Noise {
			q := variant(v.with(base, right, wrong, n), fmt.Sprintf("noise %d", n))
			all = append(all, q)
		}
		return all, nil
	}
	return nil, fmt.Errorf("%q is no way to vary a question: %s", kind, strings.Join(Variants, ", "))
}

// positions puts one right passage at each place among wrong ones. The first of the given passages is read last, next to the question.
func (v *Vary) positions(base Query, right, wrong []Passage) []Query {
	if len(right) == 0 {
		return nil
	}
	n := min(v.usual(), len(wrong)) + 1
	var all []Query
	for place := 1; place <= n; place++ {
		q := variant(base, fmt.Sprintf("position %d", place))
		q.Given, q.Ordered = slices.Insert(slices.Clone(wrong[:n-1]), place%n, right[0]), true
		all = append(all, q)
	}
	return all
}

// misspelt swaps two letters in the middle of the longest word of a question.
func misspelt(text string) string {
	from, to := 0, 0
	for i := 0; i < len(text); {
		j := i
		for j < len(text) {
			r, size := utf8.DecodeRuneInString(text[j:])
			if !unicode.IsLetter(r) {
				break
			}
			j += size
		}
		if j-i > to-from {
			from, to = i, j
		}
		_, size := utf8.DecodeRuneInString(text[j:])
		i = j + max(1, size)
	}
	word := []rune(text[from:to])
	if len(word) < 4 {
		return text
	}
	at := len(word) / 2
	for at+1 < len(word) && word[at] == word[at+1] {
		at++
	}
	if at+1 < len(word) {
		word[at], word[at+1] = word[at+1], word[at]
	}
	return text[:from] + string(word) + text[to:]
}

const paraphrasePrompt = "Say the user's question in other words. Ask for the same thing, keep every name and number, and reply with the new question only."

// paraphrase lets the model say a question in other words; "" when what it writes is the same or names something else.
func paraphrase(ctx context.Context, engine *llm.Engine, question string) (string, error) {
	tokens, err := engine.Chat().Encode([]chat.Message{{Role: "system", Content: paraphrasePrompt}, {Role: "user", Content: question}}, true)
	if err != nil {
		return "", err
	}
	stream, err := engine.Generate(ctx, llm.Request{Prompt: tokens, MaxTokens: 64, Stop: []string{"\n"}, Namespace: Tenant})
	if err != nil {
		return "", err
	}
	text, err := stream.Text()
	if err != nil {
		return "", err
	}
	said := strings.TrimSpace(text)
	same := strings.Join(normal(said), " ") == strings.Join(normal(question), " ")
	if same || !strings.HasSuffix(said, "?") || len(verify.Missing(said, question, "")) > 0 || len(verify.Missing(question, said, "")) > 0 {
		return "", nil
	}
	return said, nil
}

// Write writes the set into dir, which must not exist.
func (d *Dataset) Write(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("eval: write a set: %w: give a folder that does not exist yet", err)
	}
	var corpus, queries, gains strings.Builder
	for _, p := range d.Corpus {
		if err := writeLine(&corpus, p); err != nil {
			return err
		}
	}
	gains.WriteString("query-id\tcorpus-id\tscore\n")
	for _, q := range d.Queries {
		if err := writeLine(&queries, q); err != nil {
			return err
		}
		for _, id := range sortedKeys(d.Gains[q.ID]) {
			fmt.Fprintf(&gains, "%s\t%s\t%g\n", q.ID, id, d.Gains[q.ID][id])
		}
	}
	return writeFiles(dir, corpus.String(), queries.String(), gains.String())
}

// writeFiles writes the three files of a set.
func writeFiles(dir, corpus, queries, gains string) error {
	var failed error
	for name, text := range map[string]string{"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels.tsv": gains} {
		failed = errors.Join(failed, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return failed
}
