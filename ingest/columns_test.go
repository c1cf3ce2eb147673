package ingest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPDFColumns: prose in columns is read down each column, however it was
// drawn; tables stay tables. The files and their text are made by testdata/columns/make.py.
func TestPDFColumns(t *testing.T) {
	read := func(name string) *Document {
		data, err := os.ReadFile(filepath.Join("testdata", "columns", name))
		require.NoError(t, err)
		return parseBytes(t, name, data)
	}
	flat := func(name string) string { return strings.Join(strings.Fields(read(name).Text), " ") }
	harbour := []string{
		"The rules of the harbour and of those who come to it by sea",
		"The harbour master keeps a record of every vessel that enters the port, with the hour of its arrival, the name of its captain and the cargo that it carries.",
		"Ships from abroad must wait at the outer pier until an officer has come aboard and looked through their papers.",
		"but in the autumn, when the storms drive many of them in at once, some lie there for days. Fishing boats are free of these rules.",
		"gives them the inner basin for themselves and lets them sell their catch on the quay without paying for a stall.",
		"so that neither the rich nor the quick have an advantage over others. A dock that stands empty for more than a week goes to the next in line, and its former holder loses the deposit.",
		"What else there is to know about the port and its town",
		"The harbour office is open on all days but the first of the year.",
	}
	prose := map[string][]string{
		"two-rows.pdf": harbour, "two-columns.pdf": harbour, "two-rows-justified.pdf": harbour, "three-rows.pdf": harbour, "three-columns.pdf": harbour,
		"three-rows-justified.pdf": harbour[1:6],
		"two-rows-hyphens.pdf":     append([]string{harbour[0], "Figure 1: The outer pier"}, harbour[3:]...),
	}
	for name, phrases := range prose {
		t.Run(name, func(t *testing.T) {
			text, at := flat(name), 0
			for _, phrase := range phrases {
				i := strings.Index(text[at:], phrase)
				require.GreaterOrEqual(t, i, 0, "%q in its place in:\n%s", phrase, text)
				at += i
			}
			for _, b := range read(name).Blocks {
				require.NotEqual(t, Table, b.Kind, text)
			}
		})
	}
	require.Contains(t, flat("two-rows-german.pdf"), "bis ein Beamter an Bord gekommen ist und die Papiere gesehen hat. Für Fischerboote gelten diese Regeln nicht. "+
		"Sie fahren vor der Dämmerung hinaus und kommen mit der Flut zurück, und niemand fragt sie, wo sie gewesen sind. Eine Abmachung zwischen")
	require.Equal(t, flat("two-columns.pdf"), flat("two-rows.pdf"))
	require.Equal(t, flat("two-columns.pdf"), flat("two-rows-justified.pdf"))
	require.Equal(t, flat("three-columns.pdf"), flat("three-rows.pdf"))

	tables := map[string][]string{
		"prices.pdf":    {"Rope of hemp, the metre\t1.20\nLantern with glass\t14.50"},
		"facts.pdf":     {"Name of the vessel\tMarie of the northern isles\nHome port\tBergen in Norway\nCaptain\tOle Hansen"},
		"lists.pdf":     {"salted fish\ttwo lanterns\n", "hard cheese\tsailcloth"},
		"glossary.pdf":  {"anchorage The harbour master", "dry dock Whoever wishes", "inner basin Fishing boats"},
		"timetable.pdf": {"\nLine 1\t6:10\t6:42\t7:05"},
	}
	for name, rows := range tables {
		t.Run(name, func(t *testing.T) {
			for _, row := range rows {
				require.Contains(t, read(name).Text, row)
			}
		})
	}
	t.Run("parallel.pdf", func(t *testing.T) { // row by row, each a paragraph and its translation
		text, at := flat("parallel.pdf"), 0
		for _, phrase := range []string{harbour[1], "Der Hafenmeister führt Buch über jedes Schiff, das in den Hafen einläuft,", "older than the harbour wall, gives them the inner basin",
			"Für Fischerboote gelten diese Regeln nicht. Sie fahren vor der Dämmerung hinaus", harbour[5], "damit weder die Reichen noch die Schnellen einen Vorteil haben."} {
			i := strings.Index(text[at:], phrase)
			require.GreaterOrEqual(t, i, 0, "%q in its place in:\n%s", phrase, text)
			at += i
		}
	})
}
