package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ragd/embed"
	"ragd/eval"
	"ragd/llm/distill"
	"ragd/retrieve"
	"ragd/store"
)

type distillRetrievalCmd struct {
	Corpus      string  `help:"Corpus to learn for." short:"c"`
	Set         string  `help:"Folder of a set (corpus.jsonl, queries.jsonl, qrels.tsv) instead of a corpus: its questions that are not held out train, without their qrels, the others judge." type:"existingdir" placeholder:"DIR"`
	Questions   string  `help:"File of questions, one a line, that people asked of the corpus. Without it the answer model makes questions from passages." type:"existingfile" placeholder:"FILE"`
	Limit       int     `help:"Training questions at most, and as many held-out ones." default:"200"`
	Candidates  int     `help:"Passages per question that the cross-encoder judges." default:"20"`
	Rank        int     `help:"Rank of a turn of the question's vector that is learned, too. It needs thousands of questions: with fewer it fits them alone (docs/distillation.md)." default:"0"`
	Temperature float64 `help:"Softens the cross-encoder's relevance in training." default:"2"`
	Seed        uint64  `help:"Seed of everything random." default:"1"`
	Install     bool    `help:"Put the student in force if it gains."`
}

// Help is shown by ragd distill retrieval --help.
func (distillRetrievalCmd) Help() string {
	return `The cross-encoder reads the best passages for training questions; the student learns from its judgements to reach the same order from what the index
says at once: cosine, BM25 and the ranks in both legs. Documents are not embedded again, and asking costs no more.

Questions that neither the student nor its early stopping has seen decide: the student is refused unless the lower end of the 95% interval of its gain in
nDCG@10 is above zero for the hybrid ranking, and the ranking with the cross-encoder must not lose more than a point. Made questions are held out by document.

  ragd distill retrieval -c handbook --install
  ragd distill retrieval -c handbook --questions asked.txt --install
  ragd distill retrieval --set sets/faq
  ragd distill revert`
}

// asked is a question with what is right for it.
type asked struct {
	ID, Text string
	Lang     string
	Gains    map[string]float64 // by gold id; nil: the cross-encoder's probability is the gain
}

// options of the training.
func (k distillRetrievalCmd) options() distill.RankerOptions {
	return distill.RankerOptions{Rank: k.Rank, Steps: 400, Temperature: k.Temperature, Rate: 0.05, Decay: 0.1, Seed: k.Seed}
}

// check refuses what would fail after minutes.
func (k distillRetrievalCmd) check() error {
	const most = 100 // candidates: as many as a leg returns
	switch {
	case (k.Corpus == "") == (k.Set == ""):
		return errors.New("name either a corpus (-c) or a set (--set)")
	case k.Limit < distill.LeastQuestions:
		return fmt.Errorf("--limit %d leaves too few questions; at least %d are needed", k.Limit, distill.LeastQuestions)
	case k.Candidates < 2 || k.Candidates > most:
		return fmt.Errorf("--candidates %d must lie between 2 and %d", k.Candidates, most)
	}
	return k.options().Check(k.Limit)
}

func (k distillRetrievalCmd) Run(ctx ctxBinding, a *app) error {
	if err := k.check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	reranker, err := a.openReranker(ctx)
	if err != nil {
		return err
	}
	if reranker == nil {
		return fmt.Errorf("the teacher is the cross-encoder, and --reranker none turns it off")
	}
	r := &rankingRun{command: k, app: a, gold: goldPassage}
	if r.embedder, err = a.openEmbedder(ctx); err != nil {
		return err
	}
	if r.db, err = a.openStore(ctx); err != nil {
		return err
	}
	train, heldout, err := r.questions(ctx)
	if err != nil {
		return err
	}
	dir, err := a.workDir("retrieval-" + digest(r.tenant, r.corpus))
	if err != nil {
		return err
	}
	if r.reranker, err = openMemo(dir, reranker); err != nil {
		return err
	}
	defer r.reranker.close()
	return r.run(ctx, train, heldout)
}

// rankingRun is a run with everything opened.
type rankingRun struct {
	command  distillRetrievalCmd
	app      *app
	db       *store.Store
	embedder *embed.Encoder
	reranker *memo
	tenant   string
	corpus   string
	gold     eval.GoldID
	set      string // what the report calls the questions
}

// goldPassage knows a passage by its own id.
func goldPassage(p *retrieve.Passage) string { return fmt.Sprint(p.ID) }

// questions returns those to train on and those to judge by.
func (r *rankingRun) questions(ctx context.Context) (train, heldout []asked, err error) {
	k := r.command
	switch {
	case k.Set != "":
		return r.setQuestions(ctx)
	case k.Questions != "":
		r.corpus, r.set = k.Corpus, filepath.Base(k.Questions)
		all, err := readQuestions(k.Questions)
		if err != nil {
			return nil, nil, err
		}
		train, heldout = r.halves(all)
		return train, heldout, nil
	}
	r.corpus, r.set = k.Corpus, "made from "+k.Corpus
	return r.makeQuestions(ctx)
}

// readQuestions reads the different lines of a file.
func readQuestions(path string) ([]asked, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("questions: %w", err)
	}
	defer file.Close()
	seen := map[string]bool{}
	var all []asked
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text := strings.Join(strings.Fields(strings.ToValidUTF8(lines.Text(), "\uFFFD")), " ")
		if text != "" && !seen[text] {
			seen[text] = true
			all = append(all, asked{ID: digest(text), Text: text})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("questions: %s: %w", path, err)
	}
	return all, nil
}

func digest(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%q\n", fmt.Sprint(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// setQuestions indexes the set. Its questions that may be tuned on train, the others judge. Those with a history are left out: what they ask is not in
// them.
func (r *rankingRun) setQuestions(ctx context.Context) (train, heldout []asked, err error) {
	set, err := eval.Load(r.command.Set)
	if err != nil {
		return nil, nil, err
	}
	r.tenant, r.set = eval.Tenant, set.Name
	if r.corpus, r.gold, err = (evalRetrievalCmd{Dir: r.command.Set}).index(ctx, r.app, set); err != nil {
		return nil, nil, err
	}
	for _, q := range set.Queries {
		if len(q.History) > 0 || len(set.Gains[q.ID]) == 0 {
			continue
		}
		one := asked{ID: digest(q.ID, q.Text), Text: q.Text, Lang: q.Lang, Gains: set.Gains[q.ID]}
		if q.IsHeldOut() {
			heldout = append(heldout, one)
		} else {
			train = append(train, one)
		}
	}
	return train[:min(len(train), r.command.Limit)], heldout[:min(len(heldout), r.command.Limit)], nil
}

// halves splits by the seed and a digest of the question, so that a question stays where it is when others come or go.
func (r *rankingRun) halves(all []asked) (train, heldout []asked) {
	for _, q := range all {
		if digest(r.command.Seed, q.ID) < "8" {
			train = append(train, q)
		} else {
			heldout = append(heldout, q)
		}
	}
	return train[:min(len(train), r.command.Limit)], heldout[:min(len(heldout), r.command.Limit)]
}

func (r *rankingRun) filter(q asked) retrieve.Filter {
	f := retrieve.Filter{Tenant: r.tenant, Corpora: []string{r.corpus}}
	if q.Lang != "" {
		f.Tags = []string{"lang:" + q.Lang}
	}
	return f
}

// run teaches, trains, judges and keeps.
func (r *rankingRun) run(ctx context.Context, train, heldout []asked) error {
	k, a := r.command, r.app
	a.progress.step("%s: %d training and %d held-out questions", r.set, len(train), len(heldout))
	if len(heldout) < distill.LeastQuestions {
		return fmt.Errorf("distill: %w: %d held-out questions say nothing; at least %d are needed", distill.ErrTooLittle, len(heldout), distill.LeastQuestions)
	}
	if err := k.options().Check(len(train)); err != nil {
		return err
	}
	questions, err := r.teach(ctx, train)
	if err != nil {
		return err
	}
	student, curve, err := distill.TrainRanker(a.workers(), questions, k.options())
	if err != nil {
		return err
	}
	curves := []distill.Curve{{Name: "trained on", Values: curve.Train}, {Name: "kept aside", Values: curve.Kept}}
	for _, c := range curves {
		fmt.Printf("%-12s %s %.4f → %.4f\n", c.Name, c.Sparkline(60), c.Values[0], c.Values[len(c.Values)-1])
	}
	turn := "the question's vector stays as it is"
	if student.Rank > 0 {
		turn = fmt.Sprintf("the question's vector is turned with rank %d", student.Rank)
	}
	fmt.Printf("score = %.2f·cosine + %.2f·BM25/best + %.2f·60/(60+dense rank) + %.2f·60/(60+lexical rank); %s\n\n",
		student.Weights[0], student.Weights[1], student.Weights[2], student.Weights[3], turn)
	judged, err := r.judge(ctx, student, heldout)
	if err != nil {
		return err
	}
	judged.Training = len(train)
	judged.print()
	return r.keep(student, judged, curves)
}

// teach has the cross-encoder judge the candidates of every question, and joins its judgements with what the student sees.
func (r *rankingRun) teach(ctx context.Context, train []asked) ([]distill.Question, error) {
	bar := r.app.progress.bar("cross-encoder teaches", items)
	defer bar.done()
	var all []distill.Question
	for i, q := range train {
		question, err := r.lesson(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("distill: question %d: %w", i+1, err)
		}
		if len(question.Candidates) > 1 {
			all = append(all, question)
		}
		bar.set(int64(i+1), int64(len(train)))
	}
	return all, nil
}

// lesson makes a training question.
func (r *rankingRun) lesson(ctx context.Context, q asked) (question distill.Question, err error) {
	vectors, err := r.embedder.Embed(ctx, embed.Query, []string{q.Text})
	if err != nil {
		return question, err
	}
	dense, err := r.db.Dense(ctx, vectors[0], 100, r.filter(q))
	if err != nil {
		return question, err
	}
	lexical, err := r.db.Lexical(ctx, q.Text, 100, r.filter(q))
	if err != nil {
		return question, err
	}
	var ids []retrieve.PassageID
	fused := retrieve.Fuse(retrieve.Ranking{Hits: dense, Weight: 1}, retrieve.Ranking{Hits: lexical, Weight: 1})
	for _, h := range fused[:min(len(fused), r.command.Candidates)] {
		ids = append(ids, h.ID)
	}
	passages, err := r.db.Passages(ctx, ids, r.filter(q))
	if err != nil {
		return question, err
	}
	texts := make([]string, len(passages))
	for i := range passages {
		texts[i] = passages[i].ForRanking()
	}
	logits, err := r.reranker.Score(ctx, q.Text, texts)
	if err != nil {
		return question, err
	}
	stored, err := r.db.Vectors(ctx, r.tenant, ids)
	if err != nil {
		return question, err
	}
	features := map[retrieve.PassageID][distill.Features]float64{}
	for _, c := range retrieve.Candidates(dense, lexical) {
		features[c.ID] = c.Features
	}
	question.Vector = vectors[0]
	for i := range passages {
		if id := passages[i].ID; stored[id] != nil { // else deleted a moment ago
			question.Candidates = append(question.Candidates, distill.Candidate{Vector: stored[id], Features: features[id], Teacher: float64(logits[i])})
		}
	}
	return question, nil
}

// rankingSlot is what a ranking student is in force for.
func rankingSlot(embedder, tenant, corpus string) string {
	if tenant == "" {
		tenant = "default"
	}
	return "retrieval/" + embedder + "/" + tenant + "/" + corpus
}

// rankers returns the way to choose the student in force for a question: one corpus is asked, and it has one for this embedder.
func (a *app) rankers(embedder string) (func(retrieve.Filter) retrieve.Student, error) {
	inForce, err := a.students().Installed()
	if err != nil {
		return nil, err
	}
	students := map[string]retrieve.Student{}
	for slot, id := range inForce {
		if !strings.HasPrefix(slot, "retrieval/") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(a.students().Path(id), rankerFile))
		if err != nil {
			return nil, fmt.Errorf("student %s is in force but cannot be read ('ragd distill revert %s' does without it): %w", id, slot, err)
		}
		student, err := distill.ReadRanker(data)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("student %s is in force but damaged: 'ragd distill revert %s' does without it", id, slot), err)
		}
		students[slot] = student
	}
	if len(students) == 0 {
		return nil, nil
	}
	return func(f retrieve.Filter) retrieve.Student {
		if len(f.Corpora) != 1 {
			return nil
		}
		return students[rankingSlot(embedder, f.Tenant, f.Corpora[0])]
	}, nil
}

// rankerFile is the student in its folder.
const rankerFile = "ranker.json"
