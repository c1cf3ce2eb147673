package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"ragd/catalog"
	"ragd/llm/kernel"
)

type modelsCmd struct {
	List   modelsListCmd   `cmd:"" default:"1" help:"Show what the catalogue offers and what is on this machine."`
	Pull   modelsPullCmd   `cmd:"" help:"Fetch models; an interrupted pull goes on where it stopped."`
	Rm     modelsRmCmd     `cmd:"" help:"Remove models from this machine."`
	Verify modelsVerifyCmd `cmd:"" help:"Compare models on this machine with their checksums."`
	Probe  modelsProbeCmd  `cmd:"" help:"Run one model on JSON lines: tokens, logits, vectors, scores."`

	Generate modelsGenerateCmd `cmd:"" help:"Let one model write, with every way to choose its tokens."`

	Inspect  modelsInspectCmd  `cmd:"" help:"Show what a model is and what it costs on this machine: memory, speed limit, attention."`
	Convert  modelsConvertCmd  `cmd:"" help:"Make a GGUF file from a Hugging Face folder or an ONNX encoder."`
	Quantize modelsQuantizeCmd `cmd:"" help:"Make a smaller GGUF file and measure what that cost in quality."`
}

type modelsListCmd struct{}

// Run prints one line per model; a star marks the defaults of this machine.
func (modelsListCmd) Run(a *app) error {
	set, reason := a.defaults()
	fmt.Printf("models in %s\n\n  %-40s %-7s %9s  %-10s %s\n", catalog.Dir(), "name", "kind", "size", "here", "licence")
	for _, m := range catalog.All() {
		mark, here := " ", "-"
		if m.Name == set.Answer || m.Name == set.Embed || m.Name == set.Rerank {
			mark = "*"
		}
		if _, ok := m.Path(); ok {
			here = "yes"
		}
		fmt.Printf("%s %-40s %-7s %6.0f MB  %-10s %s\n", mark, m.Name, m.Kind, float64(m.Bytes)/1e6, here, m.Licence)
	}
	fmt.Printf("\n* default here: %s\n", reason)
	return nil
}

type modelsPullCmd struct {
	Names []string `arg:"" help:"Names from 'ragd models list'."`
	From  string   `help:"Take the model from this file (checked by its checksum) instead of the network." type:"existingfile" placeholder:"FILE"`
}

func (k modelsPullCmd) Run(ctx ctxBinding, a *app) error {
	if k.From != "" && len(k.Names) != 1 {
		return fmt.Errorf("%w: --from takes one model name", errUsage)
	}
	for _, name := range k.Names {
		m, ok := catalog.Lookup(name)
		if !ok {
			return fmt.Errorf("there is no model %q in the catalogue; 'ragd models list' shows them", name)
		}
		path, have := m.Path()
		var err error
		switch {
		case k.From != "":
			bar := a.progress.bar("taking "+m.Name, byteCount)
			path, err = catalog.PullFile(ctx, m, k.From, bar.follow)
			bar.done()
		case !have && a.Offline:
			err = fmt.Errorf("model %s is not on this machine and --offline forbids to fetch it", name)
		case !have:
			path, err = a.pull(ctx, m)
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", m.Name, path)
	}
	return nil
}

type modelsRmCmd struct {
	Names []string `arg:"" help:"Names of models on this machine."`
}

func (k modelsRmCmd) Run() error {
	for _, name := range k.Names {
		m, ok := catalog.Lookup(name)
		if !ok {
			return fmt.Errorf("there is no model %q in the catalogue", name)
		}
		if err := catalog.Remove(m); err != nil {
			return err
		}
		fmt.Printf("%s: removed\n", name)
	}
	return nil
}

type modelsVerifyCmd struct {
	Names []string `arg:"" optional:"" help:"Names; none means every model on this machine."`
}

func (k modelsVerifyCmd) Run(ctx ctxBinding) error {
	var bad []string
	for _, m := range catalog.All() {
		if _, ok := m.Path(); !ok || len(k.Names) > 0 && !slices.Contains(k.Names, m.Name) {
			continue
		}
		if err := catalog.Verify(ctx, m); err != nil {
			bad = append(bad, m.Name)
			fmt.Printf("%s: %v\n", m.Name, err)
			continue
		}
		fmt.Printf("%s: ok\n", m.Name)
	}
	if len(bad) > 0 {
		return fmt.Errorf("damaged: %s; remove and pull them again", strings.Join(bad, ", "))
	}
	return nil
}

type modelsProbeCmd struct {
	Model string `arg:"" help:"A name from 'ragd models list' or a GGUF file."`
	Float bool   `help:"Dequantize the weights and keep float activations: the path that is compared with exact references."`
}

// Help is shown by ragd models probe --help.
func (modelsProbeCmd) Help() string {
	return `Reads one JSON request per line on standard input and writes one JSON line per request. Fields: id, tokens | text | text_hex, raw, add_special,
parse_special, logits ("last" or "all"), greedy (N), chunk (N), pair ([query, document]), token_types, pooling, normalise. docs/probe.md explains them.

  echo '{"text":"Paris is the capital of","greedy":5}' | ragd models probe SmolLM2-135M-Instruct.Q4_1
  echo '{"pair":["how tall is it","It is 12 m tall."]}' | ragd models probe ms-marco-MiniLM-L12-int8`
}

func (k modelsProbeCmd) Run(ctx ctxBinding, a *app) error {
	path, err := a.modelPath(ctx, k.Model)
	if err != nil {
		return err
	}
	if err := kernel.ISAError(); err != nil {
		return err
	}
	kv := a.kv()
	if k.Float && a.KV == "auto" {
		kv = kernel.KVF32
	}
	return runProbe(ctx, path, os.Stdin, os.Stdout, probeOptions{Float: k.Float, KV: kv, Threads: a.Threads, Profile: profile(k.Model)})
}
