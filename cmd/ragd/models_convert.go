package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ragd/llm/convert"
	"ragd/llm/gguf"
)

type modelsConvertCmd struct {
	Source    string `arg:"" help:"Folder with config.json, model.safetensors and tokenizer.json, or an .onnx file of a BERT encoder or reranker." type:"path"`
	Out       string `arg:"" help:"The GGUF file to write." type:"path"`
	Tokenizer string `help:"Folder with tokenizer.json or vocab.txt (and config.json) of an .onnx file; default: its own folder." type:"existingdir" placeholder:"DIR"`
	Pooling   string `help:"How an embedding model pools: mean, cls or last. Default: what the source says." enum:",mean,cls,last" default:""`
	Heads     int    `help:"Attention heads, for an .onnx file without a config.json."`
	Name      string `help:"Name in the file; default: that of the source."`
	Licence   string `help:"Licence in the file, an SPDX name."`
	Force     bool   `help:"Replace the output when it is there."`
}

// Help is shown by ragd models convert --help.
func (modelsConvertCmd) Help() string {
	return `Precision is kept: F32, F16 and BF16 matrices stay what they are, 8-bit ONNX weights become Q8_0. 'ragd models quantize' makes a file smaller. What
is not understood (a model type, a tokenizer, a tensor) is refused by name. The output appears when it is complete, never in part.

Model types: ` + strings.Join(convert.ModelTypes(), ", ") + `

  ragd models convert ./SmolLM2-135M-Instruct smollm2-f16.gguf
  ragd models convert ./all-MiniLM-L6-v2 minilm.gguf --pooling mean
  ragd models convert reranker/model.onnx reranker.gguf --heads 12`
}

func (k modelsConvertCmd) Run(ctx ctxBinding, a *app) error {
	if err := freeOutput(k.Out, k.Source, k.Force); err != nil {
		return err
	}
	bar := a.progress.bar("converting", byteCount)
	o := convert.Options{Name: k.Name, Pooling: k.Pooling, Heads: k.Heads, Licence: k.Licence, Progress: func(done, total int64) error {
		bar.set(done, total)
		return ctx.Err()
	}}
	info, err := os.Stat(k.Source)
	switch {
	case err != nil:
	case info.IsDir():
		err = convert.HuggingFace(k.Source, k.Out, o)
	case strings.EqualFold(filepath.Ext(k.Source), ".onnx"):
		dir := k.Tokenizer
		if dir == "" {
			dir = filepath.Dir(k.Source)
		}
		err = convert.ONNX(k.Source, dir, k.Out, o)
	default:
		err = fmt.Errorf("%w: %s is neither a folder nor an .onnx file; of a Hugging Face model, name the folder", errUsage, k.Source)
	}
	bar.done()
	if err != nil {
		return err
	}
	f, err := gguf.Open(k.Out)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Printf("%s: %s, %d tensors, %.1f MB\n", k.Out, f.Architecture(), len(f.Tensors()), float64(f.Size())/1e6)
	return nil
}

// freeOutput refuses, before the work, a path that cannot be written, the source itself, and a file that is there, unless told to replace it.
func freeOutput(path, source string, force bool) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && !force:
		return fmt.Errorf("%s exists; choose another name or pass --force to replace it", path)
	case err == nil && !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink:
		return fmt.Errorf("%s is no regular file and is not replaced; name a file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if a, err := os.Stat(path); err == nil {
		if b, err := os.Stat(source); err == nil && os.SameFile(a, b) {
			return fmt.Errorf("%s is the source itself; choose another name", path)
		}
	}
	probe, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return fmt.Errorf("the output cannot be written: %w", err)
	}
	probe.Close()
	return os.Remove(probe.Name())
}
