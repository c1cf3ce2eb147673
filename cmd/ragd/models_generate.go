package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"ragd/llm"
	"ragd/llm/chat"
	"ragd/llm/grammar"
	"ragd/llm/sample"
)

type modelsGenerateCmd struct {
	Model  string   `arg:"" help:"A GGUF file of a text generator, or a name from 'ragd models list'."`
	Prompt []string `arg:"" help:"The prompt; quotes are not needed."`

	Raw       bool     `help:"Continue the prompt as it is, without the model's chat template."`
	System    string   `help:"System message before the prompt."`
	MaxTokens int      `help:"Longest answer in tokens." default:"128"`
	Stop      []string `help:"End the text before this string; may be given again." sep:"none" placeholder:"TEXT"`
	Answers   int      `help:"Independent answers, or with --beams the most probable ones." short:"n" default:"1"`
	Logprobs  int      `help:"Show the probability of every token and of this many alternatives (at most 20)." default:"0"`
	JSON      bool     `help:"Print one JSON object." name:"json"`

	Temperature       float32           `help:"0 takes the most probable token; 1 is the model's own distribution." default:"0"`
	TopK              int               `help:"Keep the k most probable tokens; 0 keeps all."`
	TopP              *float32          `help:"Keep the smallest set of tokens that has this much of the probability; 1, the default, keeps all, 0 the most probable token alone."`
	MinP              float32           `help:"Keep tokens at least this times as probable as the best; 0 keeps all, 1 the best alone."`
	RepetitionPenalty float32           `help:"Above 1 discourages tokens that the answer has already; 0 and 1 are off."`
	PresencePenalty   float32           `help:"Subtracted once from tokens that the answer has already."`
	FrequencyPenalty  float32           `help:"Subtracted once per occurrence in the answer."`
	LogitBias         map[int32]float32 `help:"Added to the logit of a token id; -100 bans it." placeholder:"ID=BIAS;…"`
	Seed              uint64            `help:"Seed of the random choices."`

	Beams         int     `help:"Search for the most probable answers, this many at a time."`
	LengthPenalty float64 `help:"Beams are scored by their log-probability divided by length to this power." default:"1"`

	Schema string   `help:"JSON Schema that the answer must have." type:"existingfile" placeholder:"FILE" xor:"grammar"`
	Choice []string `help:"The answer is one of these; give it once for each." sep:"none" placeholder:"TEXT" xor:"grammar"`
}

// Help is shown by ragd models generate --help.
func (modelsGenerateCmd) Help() string {
	return `No documents are read: this is the model alone, to try it and to see how tokens are chosen (docs/decoding.md).

  ragd models generate SmolLM2-135M-Instruct.Q4_1 "Name three rivers."
  ragd models generate SmolLM2-135M-Instruct.Q4_1 --temperature 0.8 --top-p 0.9 --min-p 0.05 --seed 1 -n 3 "Name three rivers."
  ragd models generate SmolLM2-135M-Instruct.Q4_1 --beams 4 -n 2 --max-tokens 24 "Name three rivers."
  ragd models generate SmolLM2-135M-Instruct.Q4_1 --logprobs 3 --stop . --repetition-penalty 1.2 "Name three rivers."
  ragd models generate SmolLM2-135M-Instruct.Q4_1 --choice yes --choice no "Is the Rhine a river?"
  ragd models generate SmolLM2-135M-Instruct.Q4_1 --schema river.json "Describe the Rhine."`
}

func (k modelsGenerateCmd) Run(ctx ctxBinding, a *app) error {
	path, err := a.modelPath(ctx, k.Model)
	if err != nil {
		return err
	}
	engine, err := llm.Open(path, llm.Config{Pool: a.workers(), ContextTokens: a.contextTokens(), KV: a.kv(), Base: k.Raw, Logger: a.log})
	if err != nil {
		return err
	}
	a.onClose("engine", engine.Close)
	request, err := k.request(engine)
	if err != nil {
		return err
	}
	return k.write(ctx, engine, request, os.Stdout)
}

// request turns the flags into a request.
func (k modelsGenerateCmd) request(engine *llm.Engine) (r llm.Request, err error) {
	const most = 64 // answers and beams
	if k.Answers < 1 || k.Answers > most || k.Beams < 0 || k.Beams > most || k.MaxTokens < 1 || k.Logprobs < 0 {
		return r, fmt.Errorf("%w: -n must lie between 1 and %d, --beams between 0 and %d, --max-tokens above 0, --logprobs not below it", errUsage, most, most)
	}
	r = llm.Request{
		MaxTokens: k.MaxTokens, Stop: k.Stop, Answers: k.Answers, LogProbs: k.Logprobs, Beams: k.Beams, LengthPenalty: k.LengthPenalty,
		Sampling: sample.Params{Temperature: k.Temperature, TopK: k.TopK, MinP: k.MinP, Seed: k.Seed, LogitBias: k.LogitBias,
			RepetitionPenalty: k.RepetitionPenalty, PresencePenalty: k.PresencePenalty, FrequencyPenalty: k.FrequencyPenalty},
	}
	r.Sampling.Nucleus(k.TopP)
	for id := range k.LogitBias {
		if id < 0 || int(id) >= engine.Tokenizer().Size() {
			return r, fmt.Errorf("%w: --logit-bias: there is no token %d; the vocabulary has %d", errUsage, id, engine.Tokenizer().Size())
		}
	}
	text := strings.ToValidUTF8(strings.Join(k.Prompt, " "), "\uFFFD")
	switch {
	case k.Raw && k.System != "":
		return r, fmt.Errorf("%w: --raw has no system message", errUsage)
	case k.Raw:
		r.Prompt = engine.Tokenizer().Encode(text, true, false)
	default:
		var messages []chat.Message
		if k.System != "" {
			messages = append(messages, chat.Message{Role: "system", Content: k.System})
		}
		if r.Prompt, err = engine.Chat().Encode(append(messages, chat.Message{Role: "user", Content: text}), true); err != nil {
			return r, fmt.Errorf("%w (--raw does without a template)", err)
		}
	}
	switch {
	case len(k.Choice) > 0:
		r.Grammar, err = grammar.Choice(engine.Vocab(), k.Choice)
	case k.Schema != "":
		var schema []byte
		if schema, err = os.ReadFile(k.Schema); err == nil {
			r.Grammar, err = grammar.JSONSchema(engine.Vocab(), schema)
		}
	}
	return r, err
}

// generated is one answer as JSON.
type generated struct {
	Text   string           `json:"text"`
	Finish string           `json:"finish"`
	Tokens []generatedToken `json:"tokens,omitempty"`
}

type generatedToken struct {
	ID      int32             `json:"id"`
	Text    string            `json:"text"`
	LogProb float32           `json:"logprob"`
	Top     []generatedChoice `json:"top,omitempty"`
}

type generatedChoice struct {
	ID      int32   `json:"id"`
	Text    string  `json:"text"`
	LogProb float32 `json:"logprob"`
}

// write runs the request. A single answer without probabilities appears as it is written.
func (k modelsGenerateCmd) write(ctx context.Context, engine *llm.Engine, r llm.Request, w io.Writer) error {
	stream, err := engine.Generate(ctx, r)
	if err != nil {
		return err
	}
	word := func(id int32) string { return strings.ToValidUTF8(string(engine.Tokenizer().Bytes(id)), "\uFFFD") }
	direct := k.Answers == 1 && k.Logprobs == 0 && !k.JSON
	answers := make([]generated, k.Answers)
	for event, err := range stream.Events() {
		if err != nil {
			return err
		}
		x := &answers[event.Answer]
		x.Text += event.Text
		if direct {
			fmt.Fprint(w, event.Text)
		}
		if k.Logprobs > 0 && event.Token >= 0 {
			token := generatedToken{event.Token, word(event.Token), event.LogProb, nil}
			for _, t := range event.Top {
				token.Top = append(token.Top, generatedChoice{t.Token, word(t.Token), t.LogProb})
			}
			x.Tokens = append(x.Tokens, token)
		}
	}
	for i := range answers {
		answers[i].Finish = stream.FinishReasonOf(i)
	}
	switch {
	case k.JSON:
		u := stream.Usage()
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"model": engine.Name(), "answers": answers, "prompt_tokens": u.PromptTokens, "output_tokens": u.OutputTokens})
	case direct:
		fmt.Fprintln(w)
	default:
		printGenerated(w, answers)
	}
	return nil
}

// printGenerated shows answers with a line per token where its probability was asked for.
func printGenerated(w io.Writer, answers []generated) {
	for i, x := range answers {
		if len(answers) > 1 {
			fmt.Fprintf(w, "%d (%s): ", i+1, cmp.Or(x.Finish, "?"))
		}
		fmt.Fprintln(w, strings.TrimSpace(x.Text))
		for _, t := range x.Tokens {
			fmt.Fprintf(w, "  %5.1f%%  %-14q", 100*math.Exp(float64(t.LogProb)), t.Text)
			for _, c := range t.Top {
				fmt.Fprintf(w, "  %q %.1f%%", c.Text, 100*math.Exp(float64(c.LogProb)))
			}
			fmt.Fprintln(w)
		}
	}
}
