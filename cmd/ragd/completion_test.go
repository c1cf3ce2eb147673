package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func completionScript(t *testing.T, shell string) string {
	t.Helper()
	var c commands
	parser, err := newParser(&c)
	require.NoError(t, err)
	var out strings.Builder
	write := map[string]func(*strings.Builder, []completionNode){
		"bash": func(w *strings.Builder, n []completionNode) { completeBash(w, n) },
		"zsh":  func(w *strings.Builder, n []completionNode) { completeZsh(w, n) },
		"fish": func(w *strings.Builder, n []completionNode) { completeFish(w, n) },
	}[shell]
	write(&out, completionNodes(parser.Model.Node, nil))
	return out.String()
}

// Every shell that is on this machine takes its script; bash, which is everywhere, must.
func TestCompletionScriptsAreTaken(t *testing.T) {
	t.Setenv("RAGD_CONFIG", filepath.Join(t.TempDir(), "none.yaml"))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := completionScript(t, shell)
		for _, word := range []string{"serve", "completion", "keys", "revoke", "login-issuer"} {
			require.Contains(t, script, word, shell)
		}
		path, err := exec.LookPath(shell)
		if err != nil && shell != "bash" {
			t.Logf("no %s on this machine: its script was not parsed", shell)
			continue
		}
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "ragd."+shell)
		require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
		out, err := exec.CommandContext(t.Context(), path, "-n", file).CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, out)
	}
}

func TestBashCompletes(t *testing.T) {
	t.Setenv("RAGD_CONFIG", filepath.Join(t.TempDir(), "none.yaml"))
	script := completionScript(t, "bash")
	for line, want := range map[string]string{
		"ragd ke": "keys", "ragd keys rev": "revoke", "ragd completion z": "zsh", "ragd serve --login-iss": "--login-issuer", "ragd --offline ser": "serve",
		"ragd keys create --rol": "--role", "ragd nothing-such": "",
	} {
		words := strings.Fields(line)
		test := script + "\nCOMP_WORDS=(" + strings.Join(words, " ") + ")\nCOMP_CWORD=" + string(rune('0'+len(words)-1)) + "\n_ragd\necho \"${COMPREPLY[*]}\"\n"
		out, err := exec.CommandContext(t.Context(), "bash", "-c", test).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, want, strings.TrimSpace(string(out)), line)
	}
}
