package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// variables are the environment variables that ragd takes.
func variables(t *testing.T) (all []string) {
	t.Helper()
	t.Setenv("RAGD_CONFIG", filepath.Join(t.TempDir(), "none.yaml"))
	var c commands
	parser, err := newParser(&c)
	require.NoError(t, err)
	for _, flag := range parser.Model.Flags {
		all = append(all, flag.Envs...)
	}
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			all = append(all, flag.Envs...)
		}
	}
	return append(all, "RAGD_MODELS", "RAGD_CONFIG", "RAGD_CACHE")
}

type composeService struct {
	Image, Command, Restart string
	Build                   struct{ Context, Target string }
	Environment             map[string]string
	Secrets, Volumes, Ports []string
	DependsOn               map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck             struct {
		Test              []string
		Interval, Timeout string
		Retries           int
	}
	ShmSize     string `yaml:"shm_size"`
	ReadOnly    bool   `yaml:"read_only"`
	Tmpfs       []string
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	StopGrace   string   `yaml:"stop_grace_period"`
}

type composeFile struct {
	Services map[string]composeService
	Secrets  map[string]struct{ File string }
	Volumes  map[string]struct{}
}

// The compose file has only keys that compose knows, everything that it refers to exists, and what ragd is given are settings of ragd. Where there is a
// docker with compose, that reads it, too.
func TestComposeFile(t *testing.T) {
	const path = "../../docker-compose.yml"
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	decoder.KnownFields(true)
	var c composeFile
	require.NoError(t, decoder.Decode(&c))
	dockerfile, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	known := variables(t)
	for name, s := range c.Services {
		require.True(t, (s.Image == "") != (s.Build.Context == ""), name)
		if s.Build.Target != "" {
			require.Regexp(t, `(?m)^FROM .* AS `+s.Build.Target+`$`, string(dockerfile))
		}
		for _, secret := range s.Secrets {
			require.Contains(t, c.Secrets, secret)
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			require.Contains(t, c.Volumes, source)
		}
		for other, on := range s.DependsOn {
			require.Contains(t, c.Services, other)
			require.Contains(t, []string{"service_healthy", "service_completed_successfully"}, on.Condition)
			require.True(t, on.Condition != "service_healthy" || len(c.Services[other].Healthcheck.Test) > 0, "%s waits for a health check that %s lacks", name, other)
		}
		for variable, value := range s.Environment {
			if secret, ok := strings.CutPrefix(value, "/run/secrets/"); ok {
				require.Contains(t, s.Secrets, secret)
			}
			if s.Image == "" && variable != "PGPASSFILE" {
				require.Contains(t, known, variable)
			}
			require.NotRegexp(t, `(?i)password$|secret$`, variable, "secrets come in files")
		}
	}
	ragd := c.Services["ragd"]
	require.True(t, ragd.ReadOnly)
	require.Equal(t, []string{"ALL"}, ragd.CapDrop)
	require.Equal(t, []string{"no-new-privileges:true"}, ragd.SecurityOpt)
	require.True(t, slices.ContainsFunc(ragd.Ports, func(p string) bool { return strings.HasPrefix(p, "127.0.0.1:") }), "published on this machine only")
	for _, m := range regexp.MustCompile(`(RAGD_\w+)=`).FindAllStringSubmatch(string(dockerfile), -1) {
		require.Contains(t, known, m[1])
	}
	unit, err := os.ReadFile("../../deploy/ragd.service")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(RAGD_\w+)=`).FindAllStringSubmatch(string(unit), -1) {
		require.Contains(t, known, m[1])
	}
	require.Regexp(t, `(?m)^USER 65532:65532$`, string(dockerfile))
	require.Regexp(t, `(?m)^FROM scratch AS server$`, string(dockerfile))
	if exec.Command("docker", "compose", "version").Run() != nil {
		return
	}
	out, err := exec.CommandContext(t.Context(), "docker", "compose", "-f", path, "config", "--quiet").CombinedOutput()
	require.NoError(t, err, string(out))
}
