package bench

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		row          Row
		ratio, share float64
	}{
		{Row{Value: 30, Unit: "tokens/s", Peer: "p", PeerValue: 10, Limit: 40}, 3, 0.75},
		{Row{Value: 2, Unit: "s", Peer: "p", PeerValue: 10}, 5, 0},
		{Row{Value: 100, Unit: "MiB", Peer: "p", PeerValue: 50}, 0.5, 0},
		{Row{Value: 10, Unit: "tokens/s"}, 0, 0},
		{Row{Value: 10, Unit: "tokens/s", Peer: "p"}, 0, 0},
	} {
		c.row.complete()
		require.InDelta(t, c.ratio, c.row.Ratio, 1e-12)
		require.InDelta(t, c.share, c.row.Share, 1e-12)
	}
}

func TestSignificant(t *testing.T) {
	for x, want := range map[float64]string{1: "1", 0.123456: "0.1235", 12.3456: "12.35", 999.96: "1000", 123456.7: "123457", 3.2e9: "3200000000", 0.00001234567: "0.00001235"} {
		require.Equal(t, want, significant(x))
	}
}

func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.csv")
	first := Row{Date: "2026-11-30", Commit: "abc", CPU: "A, \"B\"", Model: "m", ISA: "avx2", Threads: 2, Work: "decode 128", Value: 10, Unit: "tokens/s", Runs: 3, Note: "a,b"}
	second := first
	second.Work, second.Peer, second.PeerValue, second.Ratio = "prefill 512", "llama.cpp", 5, 2
	require.NoError(t, Append(path, first, second))
	again := first
	again.Value, again.Date = 12, "2026-12-01"
	require.NoError(t, Append(path, again))
	rows, err := ReadTable(path)
	require.NoError(t, err)
	require.Equal(t, []Row{again, second}, rows)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "date,commit,cpu,model,isa,threads,work,value,unit,peer,peer_value,ratio,limit,share,runs,others,ops_per_token,bytes_per_token,note",
		strings.SplitN(string(text), "\n", 2)[0])
	require.Equal(t, 4, bytes.Count(text, []byte("\n")))

	other := filepath.Join(t.TempDir(), "other.csv")
	require.NoError(t, os.WriteFile(other, []byte("commit,cpu\na,b\n"), 0o644))
	require.ErrorContains(t, Append(other, first), "another version")
	require.NoError(t, os.WriteFile(other, []byte(strings.Replace(string(text), ",2,decode", ",two,decode", 1)), 0o644))
	_, err = ReadTable(other)
	require.ErrorContains(t, err, "line 2: column threads")
}

// plotted is a table with a row of every kind that the picture shows.
func plotted() []Row {
	row := func(work, unit string, value float64, peer string, theirs float64) Row {
		r := Row{CPU: "A <b> & c", Model: "model-<1>", ISA: "avx512", Threads: 2, Work: work, Value: value, Unit: unit, Peer: peer, PeerValue: theirs, Limit: 2 * value}
		r.complete()
		return r
	}
	rows := []Row{
		row("prefill 512", "tokens/s", 3000, "llama.cpp", 300), row("prefill 512", "tokens/s", 3000, "ik_llama.cpp", 1000), row("decode 128", "tokens/s", 300, "", 0),
		row("decode 128 at 2048", "tokens/s", 250, "llama.cpp", 50), row("serve 8 clients", "requests/s", 0.6, "llama.cpp", 0.2),
		row("batch of 1", "tokens/s", 300, "llama.cpp", 90), row("batch of 4", "tokens/s", 900, "llama.cpp", 150),
		row("read bandwidth, huge pages", "GB/s", 60, "", 0), row("int8 peak", "GOPS", 900, "", 0),
	}
	rows[0].Ops, rows[0].Bytes = 2e8, 4e5
	rows[2].Ops, rows[2].Bytes = 2.7e8, 1e8
	return rows
}

func TestPlot(t *testing.T) {
	for _, rows := range [][]Row{nil, plotted()[:1], plotted()} {
		d := xml.NewDecoder(bytes.NewReader(Plot(rows)))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
	}
	svg := string(Plot(plotted()))
	for _, want := range []string{"ragd avx512", "llama.cpp", "ik_llama.cpp", "model-&lt;1&gt;", "ragd 10.0×", "50 % of the limit", "Roofline, avx512: 60 GB/s", "requests/s"} {
		require.Contains(t, svg, want)
	}
	require.NotContains(t, svg, "NaN")
	require.NotContains(t, svg, "Inf")
}
