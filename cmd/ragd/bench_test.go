package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBenchChoosesWorks(t *testing.T) {
	names := func(b benchCmd) []string {
		works, err := b.works()
		require.NoError(t, err)
		var list []string
		for _, w := range works {
			list = append(list, w.Name)
		}
		return list
	}
	require.Equal(t, []string{"decode", "serve"}, names(benchCmd{Work: []string{"serve", "decode"}}))
	require.NotContains(t, names(benchCmd{}), "serve")
	require.Contains(t, names(benchCmd{Full: true}), "serve")
	_, err := benchCmd{Work: []string{"swim"}}.works()
	require.ErrorIs(t, err, errUsage)
	for _, w := range names(benchCmd{Full: true}) {
		require.Contains(t, benchCmd{}.Help(), w)
	}
}

func TestBenchChecksNumbers(t *testing.T) {
	good := benchCmd{Repeat: 1, Clients: 1, Depths: []int{0}, Prompts: []int{512}, Streams: []int{1, 16}}
	require.NoError(t, good.check())
	for _, change := range []func(*benchCmd){
		func(b *benchCmd) { b.Repeat = 0 }, func(b *benchCmd) { b.Clients = -1 }, func(b *benchCmd) { b.Prompts = []int{0} },
		func(b *benchCmd) { b.Depths = []int{-1} }, func(b *benchCmd) { b.Streams = []int{1 << 30} },
	} {
		b := good
		change(&b)
		require.ErrorIs(t, b.check(), errUsage)
	}
}

func TestMachineName(t *testing.T) {
	require.Regexp(t, `^intel-r-xeon-r-processor-family-6-model-207-[0-9]+-cores$`, machineName("Intel(R) Xeon(R) Processor (family 6 model 207)"))
	require.Regexp(t, `^machine-[0-9]+-cores$`, machineName("®"))
}
