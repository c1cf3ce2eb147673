package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"ragd/eval"
	"ragd/ingest"
	"ragd/llm"
	"ragd/llm/chat"
	"ragd/llm/distill"
	"ragd/retrieve"
)

// madeQuestion is a question that the answer model made from a passage, as it is kept on disk.
type madeQuestion struct {
	Passage retrieve.PassageID `json:"id"`
	Text    string             `json:"text"` // "" when the model made none
}

const questionPrompt = `Read the passage and write one question that a reader of these documents might ask and that the passage answers. Ask for one fact, in other words than the passage's where you can. Do not mention the passage. Write the question and nothing else.

Passage:
`

// makeQuestions lets the answer model make questions from passages spread over the corpus. Documents are either for training or held out. What is right
// for a question is the passage that it was made from.
func (r *rankingRun) makeQuestions(ctx context.Context) (train, heldout []asked, err error) {
	passages, err := r.sample(ctx)
	if err != nil {
		return nil, nil, err
	}
	engine, err := r.app.openModel(ctx)
	if err != nil {
		return nil, nil, err
	}
	dir, err := r.app.workDir("retrieval-" + digest(r.tenant, r.corpus))
	if err != nil {
		return nil, nil, err
	}
	results, err := eval.OpenResults[madeQuestion](filepath.Join(dir, "questions-"+digest(engine.Fingerprint(), questionPrompt)+".jsonl"),
		eval.Header{Kind: "questions", Set: r.corpus, Settings: map[string]string{"model": engine.Fingerprint()}})
	if err != nil {
		return nil, nil, err
	}
	defer results.Close()
	known := map[retrieve.PassageID]string{}
	for _, q := range results.Records {
		known[q.Passage] = q.Text
	}
	bar := r.app.progress.bar("making questions", items)
	defer bar.done()
	for i, p := range passages {
		text, have := known[p.ID]
		if !have {
			if text, err = makeQuestion(ctx, engine, p.Text); err != nil {
				return nil, nil, err
			}
			if err := results.Add(madeQuestion{p.ID, text}); err != nil {
				return nil, nil, err
			}
		}
		bar.set(int64(i+1), int64(len(passages)))
		if text == "" {
			continue
		}
		q := asked{ID: digest(p.ID, text), Text: text, Gains: map[string]float64{goldPassage(&p): 1}}
		if r.trains(p.Document) {
			train = append(train, q)
		} else {
			heldout = append(heldout, q)
		}
	}
	return train, heldout, nil
}

// trains reports whether questions about a document are for training.
func (r *rankingRun) trains(d retrieve.DocumentID) bool {
	h := fnv.New32a()
	fmt.Fprint(h, r.command.Seed, d)
	return rand.New(rand.NewPCG(uint64(h.Sum32()), 1)).IntN(2) == 0
}

// sample returns passages spread over the corpus, about Limit on either side.
func (r *rankingRun) sample(ctx context.Context) ([]retrieve.Passage, error) {
	const page, shortest = 200, 120
	var ids []retrieve.PassageID
	for after := retrieve.DocumentID(0); ; {
		documents, err := r.db.Documents(ctx, r.tenant, []string{r.corpus}, ingest.Live, after, page)
		if err != nil {
			return nil, err
		}
		for _, d := range documents {
			of, err := r.db.DocumentPassages(ctx, r.tenant, d.ID)
			if err != nil {
				return nil, err
			}
			ids, after = append(ids, of...), d.ID
		}
		if len(documents) < page {
			break
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("distill: corpus %q holds no passages: ingest documents first ('ragd ingest -c %s PATH')", r.corpus, r.corpus)
	}
	rand.New(rand.NewPCG(r.command.Seed, 0x9a55)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var passages []retrieve.Passage
	var train, heldout int
	for len(ids) > 0 && (train < r.command.Limit || heldout < r.command.Limit) {
		part, err := r.db.Passages(ctx, ids[:min(page, len(ids))], r.filter(asked{}))
		if err != nil {
			return nil, err
		}
		ids = ids[min(page, len(ids)):]
		for _, p := range part {
			side := &heldout
			if r.trains(p.Document) {
				side = &train
			}
			if len(p.Text) >= shortest && *side < r.command.Limit {
				*side++
				passages = append(passages, p)
			}
		}
	}
	if train < 20 || heldout < 20 {
		return nil, fmt.Errorf("distill: %w: corpus %q has %d usable passages to train on and %d in documents of their own to judge by; 20 of each are needed: "+
			"another --seed judges by other documents, and --questions FILE takes questions that were asked", distill.ErrTooLittle, r.corpus, train, heldout)
	}
	return passages, nil
}

// makeQuestion returns one question about a passage, "" when the model wrote none.
func makeQuestion(ctx context.Context, engine *llm.Engine, passage string) (string, error) {
	prompt, err := engine.Chat().Encode([]chat.Message{{Role: "user", Content: questionPrompt + passage}}, true)
	if err != nil {
		return "", fmt.Errorf("make a question: %w", err)
	}
	stream, err := engine.Generate(ctx, llm.Request{Prompt: prompt, MaxTokens: 48, Stop: []string{"\n"}, Namespace: "distill"})
	if errors.Is(err, llm.ErrTooLong) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("make a question: %w", err)
	}
	text, err := stream.Text()
	if err != nil {
		return "", fmt.Errorf("make a question: %w", err)
	}
	question := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "Question:")) // small models label it
	question = strings.Trim(question, `"`)
	if !strings.HasSuffix(question, "?") || len(question) < 12 {
		return "", nil
	}
	return question, nil
}
