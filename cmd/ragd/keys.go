package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"ragd/server"
	"ragd/store"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Make a key and print it, once."`
	List   keysListCmd   `cmd:"" help:"List the keys of a tenant."`
	Rotate keysRotateCmd `cmd:"" help:"Replace a key by one that permits the same; the old one ends after --grace."`
	Revoke keysRevokeCmd `cmd:"" help:"End a key at once, in every running ragd."`
	Log    keysLogCmd    `cmd:"" help:"Show what keys changed and what they were refused, newest first."`
}

// Help is shown by ragd keys --help.
func (keysCmd) Help() string {
	return `A key belongs to one tenant and sees nothing of another. Only its hash is stored. Once a key exists, ragd serve refuses requests without one.

  ragd keys create --name wiki-bot --role reader --corpus handbook --requests-per-minute 60 --expires 90d
  ragd keys create --tenant acme --name ops --role admin
  ragd keys rotate 3 --grace 24h
  ragd keys revoke 3`
}

// span is a length of time that people write in days: 90d, or as Go does: 36h.
type span time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *span) UnmarshalText(text []byte) error {
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is not a number of days; write 90d, or 36h", text)
		}
		*s = span(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a length of time; write 90d, 36h or 15m", text)
	}
	*s = span(d)
	return nil
}

type keysCreateCmd struct {
	Name              string   `help:"What the key is for." required:""`
	Tenant            string   `help:"Whose documents it works on." default:"default"`
	Role              string   `help:"What it may do: reader asks and searches, editor also adds and deletes documents, admin also makes keys." enum:"reader,editor,admin" default:"reader"`
	Corpus            []string `help:"Corpora that it may see; none is all. May be repeated." placeholder:"NAME"`
	RequestsPerMinute int      `help:"0: no limit."`
	TokensPerDay      int64    `help:"Tokens of prompts and answers per day (UTC). 0: no limit."`
	Expires           span     `help:"When it ends, from now. Without it never." placeholder:"90d"`
}

func (k keysCreateCmd) Run(ctx ctxBinding, a *app) error {
	if k.RequestsPerMinute < 0 || k.TokensPerDay < 0 {
		return fmt.Errorf("%w: limits must not be negative", errUsage)
	}
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	key := store.Key{Tenant: k.Tenant, Name: k.Name, Corpora: k.Corpus, Actions: server.Roles[k.Role], RequestsPerMinute: k.RequestsPerMinute, TokensPerDay: k.TokensPerDay}
	if k.Expires > 0 {
		key.ExpiresAt = time.Now().Add(time.Duration(k.Expires))
	}
	secret, made, err := db.CreateKey(ctx, key)
	if err != nil {
		return err
	}
	return a.madeKey(ctx, db, secret, made, "keys create")
}

// madeKey prints a new key: the secret alone on standard output, for scripts, and what to know about it beside that.
func (a *app) madeKey(ctx ctxBinding, db *store.Store, secret string, k store.Key, action string) error {
	fmt.Println(secret)
	fmt.Fprintf(os.Stderr, "key %d (%s) of tenant %s; it cannot be shown again\n", k.ID, k.Name, k.Tenant)
	return auditCommand(ctx, db, k.Tenant, action, k.ID)
}

// auditCommand notes a change that was made on this machine rather than through the API.
func auditCommand(ctx ctxBinding, db *store.Store, tenant, action string, id int64) error {
	return db.Audit(ctx, store.AuditEntry{Tenant: tenant, KeyName: "command line", Action: action, Target: strconv.FormatInt(id, 10)})
}

type keysListCmd struct {
	Tenant string `help:"Whose keys." default:"default"`
}

func (k keysListCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	keys, err := db.Keys(ctx, k.Tenant)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSTATE\tMAY\tCORPORA\tREQUESTS/MIN\tTOKENS/DAY\tEXPIRES")
	for _, key := range keys {
		state, expires, corpora := "works", "never", "all"
		if !key.ExpiresAt.IsZero() {
			if expires = key.ExpiresAt.Local().Format("2006-01-02 15:04"); key.ExpiresAt.Before(time.Now()) {
				state = "expired"
			}
		}
		if key.Revoked {
			state = "revoked"
		}
		if len(key.Corpora) > 0 {
			corpora = strings.Join(key.Corpora, ",")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.Name, state, strings.Join(key.Actions, ","), corpora, limit(int64(key.RequestsPerMinute)), limit(key.TokensPerDay), expires)
	}
	return w.Flush()
}

func limit(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

type keysRotateCmd struct {
	ID     int64  `arg:"" help:"From 'ragd keys list'."`
	Tenant string `help:"Whose key." default:"default"`
	Grace  span   `help:"How long the old key still works." default:"0s" placeholder:"24h"`
}

func (k keysRotateCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	secret, made, err := db.RotateKey(ctx, k.Tenant, k.ID, time.Duration(k.Grace))
	if err != nil {
		return err
	}
	return a.madeKey(ctx, db, secret, made, "keys rotate")
}

type keysRevokeCmd struct {
	ID     int64  `arg:"" help:"From 'ragd keys list'."`
	Tenant string `help:"Whose key." default:"default"`
}

func (k keysRevokeCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	if err := db.RevokeKey(ctx, k.Tenant, k.ID); err != nil {
		return err
	}
	return auditCommand(ctx, db, k.Tenant, "keys revoke", k.ID)
}

type keysLogCmd struct {
	Tenant string `help:"Whose log." default:"default"`
	Limit  int    `help:"Entries." default:"50"`
}

func (k keysLogCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	entries, err := db.AuditLog(ctx, k.Tenant, 0, k.Limit)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tKEY\tACTION\tTARGET\tSTATUS\tREQUEST")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%d %s\t%s\t%s\t%s\t%s\n", e.At.Local().Format("2006-01-02 15:04:05"), e.Key, e.KeyName, e.Action, e.Target, limit(int64(e.Status)), e.RequestID)
	}
	return w.Flush()
}
