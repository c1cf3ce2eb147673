package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parseWith parses a command line with a settings file and an environment.
func parseWith(t *testing.T, file string, environment map[string]string, args ...string) (commands, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ragd.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	t.Setenv("RAGD_CONFIG", path)
	for name, value := range environment {
		t.Setenv(name, value)
	}
	var c commands
	parser, err := newParser(&c)
	if err != nil {
		return c, err
	}
	_, err = parser.Parse(args)
	return c, err
}

const settingsSample = `
version: 1
threads: 3
model: from-file
offline: true
max-read: 90s
serve:
  listen: 0.0.0.0:9000
  login-grant: ["cn=staff,ou=x=reader", "*=reader@acme"]
  login-scopes: [groups]
  login-time: 1h
`

func TestFlagsThenEnvironmentThenFileThenDefaults(t *testing.T) {
	c, err := parseWith(t, settingsSample, map[string]string{"RAGD_MODEL": "from-environment", "RAGD_THREADS": "2"}, "serve", "--threads", "1")
	require.NoError(t, err)
	require.Equal(t, 1, c.Threads)
	require.Equal(t, "from-environment", c.Model)
	require.True(t, c.Offline)
	require.Equal(t, 90*time.Second, c.MaxRead)
	require.Equal(t, 4096, c.Context)
	require.Equal(t, "0.0.0.0:9000", c.Serve.Listen)
	require.Equal(t, []string{"cn=staff,ou=x=reader", "*=reader@acme"}, c.Serve.Login.Grant)
	require.Equal(t, []string{"groups"}, c.Serve.Login.Scopes)
	require.Equal(t, time.Hour, c.Serve.Login.Time)
	require.Equal(t, "groups", c.Serve.Login.GroupsClaim)
}

func TestSettingsThatWouldBeIgnoredAreRefused(t *testing.T) {
	for file, says := range map[string]string{
		"modle: x":                         `line 1: there is no setting "modle" here`,
		"version: 1\nserve:\n  lisen: x":   `line 3: there is no setting "lisen" here`,
		"listen: 0.0.0.0:80":               `line 1: there is no setting "listen" here`,
		"serve: yes":                       "serve is a command: its settings stand below it",
		"model:\n  name: x":                "model takes a value, not keys of its own",
		"version: 2\nmodel: x":             "version is 2; this ragd reads version 1",
		"version: one":                     "version is one",
		"model: a\nmodel: b":               "already defined",
		"- model":                          "the file must hold keys with values",
		"model: [":                         "yaml",
		"threads: many":                    "threads",
		"kv: int9":                         "kv",
		"serve:\n  help: true":             `there is no setting "help" here`,
		"model: \"\\0\"\nxx\x00yy: broken": "yaml",
	} {
		_, err := parseWith(t, file, nil, "serve")
		require.ErrorContains(t, err, says, file)
	}
	for _, file := range []string{"", "# nothing\n", "version: 1\n", "threads: 2\n"} {
		_, err := parseWith(t, file, nil, "serve")
		require.NoError(t, err, file)
	}
}

// What ragd config prints says where each value comes from, shows no secret, and is itself a file of settings that means the same.
func TestConfigIsReadBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ragd.yaml")
	require.NoError(t, os.WriteFile(path, []byte(settingsSample), 0o600))
	exe, err := os.Executable()
	require.NoError(t, err)
	print := func(config string, environment ...string) string {
		cmd := exec.Command(exe, "config", "--context", "2048")
		cmd.Env = append([]string{"RAGD_TEST_MAIN=1", "HOME=" + dir, "RAGD_CONFIG=" + config}, environment...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		return string(out)
	}
	out := print(path, "RAGD_API_KEY=hidden", "DATABASE_URL=postgres://u:hidden@db/x", "RAGD_EMBEDDER=true")
	require.NotContains(t, out, "hidden")
	for _, line := range []string{"threads: 3 # file", "model: from-file # file", "context: 2048 # command line", "embedder: \"true\" # environment RAGD_EMBEDDER",
		"kv: auto # default", "listen: 0.0.0.0:9000 # file", "login-grant: cn=staff,ou=x=reader;*=reader@acme # file", "# api-key: (not shown) # environment RAGD_API_KEY",
		"# login-issuer: # default", "database-url: postgres://u:xxxxx@db/x # environment DATABASE_URL"} {
		require.Contains(t, strings.Join(strings.Fields(out), " "), line)
	}
	again := filepath.Join(dir, "again.yaml")
	require.NoError(t, os.WriteFile(again, []byte(out), 0o600))
	c, err := parseWith(t, out, nil, "serve")
	require.NoError(t, err)
	require.Equal(t, []string{"cn=staff,ou=x=reader", "*=reader@acme"}, c.Serve.Login.Grant)
	require.Equal(t, "true", c.Embedder)
	require.Equal(t, 2048, c.Context)
	require.Equal(t, 90*time.Second, c.MaxRead)
	require.True(t, c.Offline)
}
