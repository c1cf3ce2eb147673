package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"ragd/ingest"
)

// globals are the settings that every command shares.
type globals struct {
	DataDir       string        `help:"Folder of the private database." env:"RAGD_DATA" default:"${data_dir}" type:"path" group:"settings"`
	DatabaseURL   string        `help:"Postgres with pgvector 0.8.4 or later. Empty: a private one, kept in the data folder." env:"DATABASE_URL" name:"database-url" group:"settings"`
	Replicas      []string      `help:"Read replicas of the database: searches go there while they are up to date. URLs, separated by commas." env:"RAGD_REPLICAS" secret:"" placeholder:"URL,…" group:"settings"`
	EngineURL     string        `help:"Let an OpenAI-compatible server (vLLM, llama-server) write the answers, such as http://gpu:8000/v1. Questions and passages are sent there." env:"RAGD_ENGINE_URL" name:"engine-url" group:"settings"`
	EngineModel   string        `help:"Its model. Empty: the first that it lists." env:"RAGD_ENGINE_MODEL" name:"engine-model" group:"settings"`
	EngineKey     string        `help:"Its API key." env:"RAGD_ENGINE_KEY" name:"engine-key" secret:"" group:"settings"`
	EngineKeyFile string        `help:"File that holds its API key." env:"RAGD_ENGINE_KEY_FILE" name:"engine-key-file" type:"path" group:"settings"`
	EngineWait    time.Duration `help:"Longest wait for the first word of its answer." env:"RAGD_ENGINE_WAIT" name:"engine-wait" default:"2m" group:"settings"`
	Model         string        `help:"Answer model: a name from 'ragd models list' or a GGUF file. Empty: chosen by memory and cores." env:"RAGD_MODEL" group:"settings"`
	Embedder      string        `help:"Embedding model. A corpus keeps the model that it was built with." env:"RAGD_EMBEDDER" group:"settings"`
	Reranker      string        `help:"Cross-encoder that reads the best candidates again; 'none' turns it off." env:"RAGD_RERANKER" group:"settings"`
	Threads       int           `help:"Worker threads. 0: what the machine or its container allows." env:"RAGD_THREADS" group:"settings"`
	Context       int           `help:"Context window in tokens; by default at most the model's own." env:"RAGD_CONTEXT" default:"4096" group:"settings"`
	KV            string        `help:"Element type of the key/value cache (auto: int16; mixed: 16-bit keys and 8-bit values; auto is f32 with probe --float)." env:"RAGD_KV" enum:"auto,int16,mixed,f16,f32,int8" default:"auto" group:"settings"`
	OCR           string        `help:"Read scanned pages with the program tesseract: auto (where it is installed) or off." env:"RAGD_OCR" enum:"auto,off" default:"auto" name:"ocr" group:"settings"`
	OCRLanguage   string        `help:"Languages of scanned pages, such as eng+deu. Empty: those that tesseract has, at most four." env:"RAGD_OCR_LANGUAGE" name:"ocr-language" group:"settings"`
	MaxFile       int64         `help:"Largest file in MiB. 0: 512." env:"RAGD_MAX_FILE" name:"max-file" group:"settings"`
	MaxExpanded   int64         `help:"Most that the members of one file may decompress to, in MiB. 0: 1024." env:"RAGD_MAX_EXPANDED" name:"max-expanded" group:"settings"`
	MaxRatio      int64         `help:"Decompressed to compressed, beyond the first 16 MiB. 0: 200." env:"RAGD_MAX_RATIO" name:"max-ratio" group:"settings"`
	MaxMembers    int           `help:"Most members of an archive, parts of a mail, pages of a PDF. 0: 20000." env:"RAGD_MAX_MEMBERS" name:"max-members" group:"settings"`
	MaxDepth      int           `help:"Deepest that archives and mails may be nested. 0: 8." env:"RAGD_MAX_DEPTH" name:"max-depth" group:"settings"`
	MaxRead       time.Duration `help:"Longest that reading one file may take, OCR apart. 0: two minutes." env:"RAGD_MAX_READ" name:"max-read" group:"settings"`
	Offline       bool          `help:"Never fetch anything: a missing model is an error." env:"RAGD_OFFLINE" group:"settings"`
	Verbose       bool          `help:"Log more (never document, question or answer text)." short:"v" env:"RAGD_VERBOSE" group:"settings"`
}

// configPath is the file that holds settings, keys as the flags without dashes in front.
func configPath() string {
	if path := os.Getenv("RAGD_CONFIG"); path != "" {
		return path
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "ragd.yaml"
	}
	return filepath.Join(dir, "ragd", "config.yaml")
}

// dataDir is where the private database lives by default.
func dataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "ragd")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "ragd-data"
	}
	return filepath.Join(home, ".local", "share", "ragd")
}

func vars() kong.Vars {
	return kong.Vars{"data_dir": dataDir()}
}

// limits are the bounds of reading a file.
func (g globals) limits() ingest.Limits {
	l := ingest.Limits{FileBytes: g.MaxFile << 20, ExpandBytes: g.MaxExpanded << 20, Ratio: g.MaxRatio, Entries: g.MaxMembers, Depth: g.MaxDepth, Time: g.MaxRead}
	if g.OCR == "auto" {
		l.OCR = &ingest.OCR{Languages: g.OCRLanguage}
	}
	return l
}

type configCmd struct{}

// Help is shown by ragd config --help.
func (configCmd) Help() string {
	return `The output is itself a file of settings. Where it lies: RAGD_CONFIG, else the first line of the output says.

  ragd config
  ragd config > ragd.yaml && RAGD_CONFIG=ragd.yaml ragd serve`
}

// Run prints the settings of all commands and of the server, with their values in force and where each comes from.
func (configCmd) Run(parsed *kong.Context) error {
	path, file := configPath(), &settings{}
	state := "not there"
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		read, err := loadSettings(f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		file, state = read.(*settings), "read"
	}
	root := parsed.Model.Node
	fmt.Printf("# %s: %s. Flags come before the environment, that before the file.\nversion: %d\n", path, state, settingsVersion)
	write(os.Stdout, "", settingsOf(parsed, file, root))
	for _, command := range root.Children {
		if command.Name == "serve" {
			fmt.Println("serve:")
			write(os.Stdout, "  ", settingsOf(parsed, file, command))
		}
	}
	return nil
}
