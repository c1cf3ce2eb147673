package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands is the command line: one field per subcommand, one file per field.
type commands struct {
	globals

	Demo       demoCmd       `cmd:"" help:"Everything at once on the sample corpus: models, database, three questions, the page. Start here."`
	Serve      serveCmd      `cmd:"" help:"Serve the page and the HTTP API."`
	Mcp        mcpCmd        `cmd:"" name:"mcp" help:"Be a tool of another program: search, read and ask over the Model Context Protocol on standard input and output."`
	Keys       keysCmd       `cmd:"" help:"Make, list, rotate and revoke API keys; show what was done with them."`
	Ask        askCmd        `cmd:"" help:"Ask a question and read the cited answer."`
	Inspect    inspectCmd    `cmd:"" help:"Show how an answer came about; write it again; say which passage carried it."`
	Ingest     ingestCmd     `cmd:"" help:"Read files and folders into a corpus; unchanged files are skipped, an interrupted run goes on."`
	Parse      parseCmd      `cmd:"" help:"Show what ragd reads out of one file (no database needed)."`
	Models     modelsCmd     `cmd:"" help:"List, fetch, verify, remove and probe models."`
	Eval       evalCmd       `cmd:"" help:"Measure retrieval on a set of questions with known passages."`
	Bench      benchCmd      `cmd:"" help:"Measure speed and memory on this machine, beside other engines if asked."`
	Load       loadCmd       `cmd:"" help:"Put load on a running server and say what came of it."`
	Distill    distillCmd    `cmd:"" help:"Train small models on your own text and questions, in minutes, on this machine."`
	Doctor     doctorCmd     `cmd:"" help:"Check models, database, memory and processor, and say what to do."`
	Migrate    migrateCmd    `cmd:"" help:"Bring the database schema up to date (or to another version, with --to)."`
	Config     configCmd     `cmd:"" help:"Print the configuration in force."`
	Version    versionCmd    `cmd:"" help:"Print version, platform and kernel path."`
	Health     healthCmd     `cmd:"" help:"Ask a running server whether it is ready; for health checks."`
	Completion completionCmd `cmd:"" help:"Print a script that lets bash, zsh or fish complete ragd's command line."`
}

func main() {
	os.Exit(run())
}

// run parses the command line and runs it; it returns the exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
func run() int {
	var c commands
	parser, err := newParser(&c)
	if err != nil {
		fmt.Fprintf(os.Stderr, "ragd: %v\n", err)
		return 2
	}
	selected, err := parser.Parse(os.Args[1:])
	if err != nil {
		var parse *kong.ParseError
		if errors.As(err, &parse) {
			_ = parse.Context.PrintUsage(true)
		}
		fmt.Fprintf(os.Stderr, "\nragd: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the first signal asks to finish, a second one ends the process

	a := newApp(c.globals)
	err = selected.Run(ctxBinding{ctx}, a)
	a.close()
	return exitStatus(ctx, err)
}

// newParser prepares c to take settings from the command line, the environment and the settings file.
func newParser(c *commands) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("ragd"),
		kong.Description("Ask questions over your own documents. Everything runs on this machine: documents, database and language model."+
			"\n\nPrecedence of settings: flags, then environment, then "+configPath()+", then defaults."),
		kong.Configuration(loadSettings, configPath()),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		vars(),
	)
}

func exitStatus(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "ragd: interrupted; run the same command again: what it had finished and kept is not done twice")
		return 130
	default:
		fmt.Fprintf(os.Stderr, "ragd: %v\n", err)
		return 1
	}
}

// ctxBinding carries the process's context to the Run method of a command: kong binds concrete types only.
type ctxBinding struct{ context.Context }

// version is the module's version and commit, as the Go tool recorded them.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return strings.TrimSuffix(info.Main.Version+" "+commit(), " ")
}

// commit is the one that this binary was built from, as far as the Go tool recorded it.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return s.Value[:12]
			}
		}
	}
	return ""
}
