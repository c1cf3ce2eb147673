package llm

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestAvailableMemory(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	meminfo := file("MemTotal: 4000 kB\nMemAvailable:    3000 kB\n")
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"nothing says":  {fstest.MapFS{}, 0},
		"no group":      {fstest.MapFS{"proc/meminfo": meminfo}, 3000 << 10},
		"damaged files": {fstest.MapFS{"proc/meminfo": file("MemAvailable: many kB"), "proc/self/cgroup": file("0:\n1:2\n::\n")}, 0},
		"no limit": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a\n"),
			"sys/fs/cgroup/a/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.current": file("1000\n")}, 3000 << 10},
		"own limit": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("900000\n"), "sys/fs/cgroup/a/b/memory.current": file("500000\n"),
			"sys/fs/cgroup/a/b/memory.stat": file("anon 1\ninactive_file 200000\n")}, 600000},
		"limit of a group around it": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("900000\n"), "sys/fs/cgroup/a/b/memory.current": file("500000\n"),
			"sys/fs/cgroup/a/memory.max": file("950000\n"), "sys/fs/cgroup/a/memory.current": file("940000\n")}, 10000},
		"a container that sees its own group as the root": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/docker/x\n"),
			"sys/fs/cgroup/memory.max": file("700000\n"), "sys/fs/cgroup/memory.current": file("800000\n")}, 1},
		"first version": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("5:cpu,memory:/m\n4:cpuset:/\n"),
			"sys/fs/cgroup/memory/m/memory.limit_in_bytes": file("800000\n"), "sys/fs/cgroup/memory/m/memory.usage_in_bytes": file("100000\n")}, 700000},
	} {
		require.Equal(t, c.want, availableMemory(c.files), name)
	}
}

func TestMemoryFits(t *testing.T) {
	const mib = 1 << 20
	plan := func(available, budget int64) (Memory, error) {
		m := Memory{WeightBytes: 100 * mib, ActivationBytes: 10 * mib, PageBytes: mib, ContextTokens: 640, AvailableBytes: available}
		err := m.fit(Config{MaxSeqs: 3, MemoryBytes: budget})
		return m, err
	}
	m, err := plan(0, 0)
	require.NoError(t, err)
	require.Equal(t, 120, m.Pages, "three contexts of forty pages")
	require.Equal(t, "100 MiB of weights, 120 of keys and values (1920 tokens, kept prefixes among them), 10 of activations: 230 MiB", m.String())
	m, err = plan(200*mib, 0)
	require.NoError(t, err)
	require.Equal(t, 90, m.Pages, "no more than is available")
	require.Contains(t, m.String(), "200 MiB of 200 available")
	m, err = plan(1, 160*mib)
	require.NoError(t, err)
	require.Equal(t, 50, m.Pages, "a budget is the caller's own responsibility")
	_, err = plan(130*mib, 0)
	require.EqualError(t, err, "a context of 640 tokens needs 100 MiB for weights, 10 for activations and 40 for the cache, but the system or the container's limit leaves 130 MiB: "+
		"ask for a context of at most 320 tokens, choose a smaller model, or give it more memory")
	_, err = plan(0, 109*mib)
	require.ErrorContains(t, err, "the budget is 109 MiB: choose a smaller model or one in fewer bits")
}
