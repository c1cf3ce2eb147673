package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"ragd/catalog"
	"ragd/llm/kernel"
)

type doctorCmd struct{}

// finding is the outcome of one check.
type finding struct {
	name, detail string
	advice       string // what to do; "" when all is well
}

// Run checks what ragd depends on, from the processor to the database, and fails when something must be done first.
func (doctorCmd) Run(ctx ctxBinding, a *app) error {
	var todo int
	for _, check := range []func(context.Context, *app) finding{checkProcessor, checkMemory, checkModels, checkPip, checkDatabase} {
		f := check(ctx, a)
		mark := "ok  "
		if f.advice != "" {
			mark = "TODO"
			todo++
		}
		fmt.Printf("%s  %-10s %s\n", mark, f.name, f.detail)
		if f.advice != "" {
			fmt.Printf("      %-10s %s\n", "", f.advice)
		}
	}
	if todo > 0 {
		return fmt.Errorf("%d things to do", todo)
	}
	return nil
}

func checkProcessor(_ context.Context, a *app) finding {
	f := finding{name: "processor", detail: fmt.Sprintf("%s/%s, %d threads, %s kernels", runtime.GOOS, runtime.GOARCH, a.workers().Threads(), kernel.Active())}
	if err := kernel.ISAError(); err != nil {
		f.advice = err.Error()
	}
	return f
}

func checkMemory(_ context.Context, a *app) finding {
	available := availableMemory()
	set, reason := a.defaults()
	f := finding{name: "memory", detail: fmt.Sprintf("%.1f GiB available: %s (%s)", float64(available)/(1<<30), set.Answer, reason)}
	if available < 1<<30 {
		f.advice = "less than 1 GiB is available: close other programs, or point --model at a smaller one"
	}
	return f
}

func checkModels(_ context.Context, a *app) finding {
	set, _ := a.defaults()
	var missing []string
	for _, name := range []string{set.Answer, set.Embed, set.Rerank} {
		if m, ok := catalog.Lookup(name); ok {
			if _, have := m.Path(); !have {
				missing = append(missing, name)
			}
		}
	}
	f := finding{name: "models", detail: "in " + catalog.Dir()}
	if len(missing) > 0 {
		f.advice = "ragd models pull " + strings.Join(missing, " ")
	}
	return f
}

// checkPip matters only while something must be fetched.
func checkPip(ctx context.Context, _ *app) finding {
	for _, client := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}} {
		if out, err := exec.CommandContext(ctx, client[0], append(client[1:], "--version")...).Output(); err == nil {
			return finding{name: "pip", detail: strings.TrimSpace(string(out))}
		}
	}
	return finding{name: "pip", detail: "not found; models and the private PostgreSQL come through it",
		advice: "install it (Debian and Ubuntu: apt-get install python3-pip), or use 'ragd models pull --from FILE' and DATABASE_URL"}
}

func checkDatabase(ctx context.Context, a *app) finding {
	where := "private, in " + a.DataDir
	if a.DatabaseURL != "" {
		where = redactURL(a.DatabaseURL)
	}
	db, err := a.openStore(ctx)
	if err == nil {
		err = db.Ping(ctx)
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return finding{name: "database", detail: where, advice: "interrupted"}
		}
		return finding{name: "database", detail: where, advice: err.Error()}
	}
	return finding{name: "database", detail: where}
}
