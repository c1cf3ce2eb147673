package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// serveSettings are those that ragd serve would start with, from the environment and the settings file.
func serveSettings() (serveCmd, error) {
	var c commands
	parser, err := newParser(&c)
	if err == nil {
		_, err = parser.Parse([]string{"serve"})
	}
	return c.Serve, err
}

// checkSettings says where settings come from. A file with mistakes never gets here: no command starts with one.
func checkSettings(context.Context, *app) finding {
	path := configPath()
	if _, err := os.Stat(path); err != nil {
		return finding{name: "settings", detail: "no file at " + path}
	}
	return finding{name: "settings", detail: "from " + path}
}

// checkServer says whether ragd serve would start.
func checkServer(ctx context.Context, a *app) finding {
	f := finding{name: "server"}
	k, err := serveSettings()
	if err != nil {
		f.advice = err.Error()
		return f
	}
	f.detail = "would listen on " + k.Listen
	key, err := secretOf(k.APIKey, k.APIKeyFile)
	if err != nil {
		f.advice = "the file of the API key: " + err.Error()
		return f
	}
	if host, _, err := net.SplitHostPort(k.Listen); err != nil {
		f.advice = fmt.Sprintf("%q is no address: write host:port, for example 127.0.0.1:8080", k.Listen)
		return f
	} else if ip := net.ParseIP(host); key == "" && k.Login.Issuer == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) && a.db != nil {
		if hasKeys, err := a.db.HasKeys(ctx); err == nil && !hasKeys {
			f.advice = "beyond loopback a key is needed: ragd keys create --name first --role admin"
			return f
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", k.Listen)
	if err != nil {
		f.detail += ", which is taken"
		if (healthCmd{}).answers(ctx, k.Listen) {
			f.detail = "a ragd answers on " + k.Listen
			return f
		}
		f.advice = fmt.Sprintf("%v: another program listens there, or this machine has no such address; choose another one with --listen", err)
		return f
	}
	_ = listener.Close()
	return f
}

// answers reports whether a ragd lives at an address.
func (healthCmd) answers(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+strings.Replace(address, "0.0.0.0", "127.0.0.1", 1)+"/livez", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK && response.Header.Get("X-Request-Id") != ""
}

// checkLogin asks the provider of accounts, if there is one, to describe itself.
func checkLogin(ctx context.Context, _ *app) finding {
	f := finding{name: "sign-in", detail: "none: keys only"}
	k, err := serveSettings()
	if err != nil || k.Login.Issuer == "" {
		return f
	}
	f.detail = "at " + k.Login.Issuer
	provider, err := k.Login.provider(k.PublicURL)
	if err == nil {
		err = provider.Check(ctx)
	}
	if err != nil {
		f.advice = err.Error()
	}
	return f
}

// checkTraces asks whether something listens where traces would go.
func checkTraces(ctx context.Context, a *app) finding {
	f := finding{name: "traces", detail: "none"}
	endpoint := traceEndpoint()
	if endpoint == "" {
		return f
	}
	f.detail = "to " + redactURL(endpoint)
	if _, err := a.openTraces(ctx); err != nil {
		f.advice = err.Error()
		return f
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, endpoint, nil)
	if err == nil {
		var response *http.Response
		if response, err = (&http.Client{Timeout: 3 * time.Second}).Do(request); err == nil {
			_ = response.Body.Close()
		}
	}
	if err != nil {
		f.advice = "it cannot be reached: " + err.Error()
	}
	return f
}
