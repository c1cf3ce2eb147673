package sentence_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"ragd/sentence"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"plain", "One thing. Another thing! A third?", []string{"One thing.", "Another thing!", "A third?"}},
		{"title", "Ask Dr. Solheim about Fig. 3 today. She knows.", []string{"Ask Dr. Solheim about Fig. 3 today.", "She knows."}},
		{"initial", "J. K. Rowling wrote it. It sold.", []string{"J. K. Rowling wrote it.", "It sold."}},
		{"decimal", "It costs 5.30 NOK per km. Tolls are extra.", []string{"It costs 5.30 NOK per km.", "Tolls are extra."}},
		{"lower case goes on", "It takes approx. ten days, e.g. in May. Then it ends.", []string{"It takes approx. ten days, e.g. in May.", "Then it ends."}},
		{"company", "It was built by Halden Inc. The sensor is small.", []string{"It was built by Halden Inc.", "The sensor is small."}},
		{"soft line break", "The limit is\nper night. It holds.", []string{"The limit is\nper night.", "It holds."}},
		{"paragraphs", "No full stop here\n\nNext paragraph", []string{"No full stop here", "Next paragraph"}},
		{"list", "Choices:\n- one\n- two\nEnd.", []string{"Choices:", "- one", "- two", "End."}},
		{"table", "| a | b |\n| 1 | 2 |\n", []string{"| a | b |", "| 1 | 2 |"}},
		{"numbered", "1. First\n2. Second", []string{"1. First", "2. Second"}},
		{"cjk", "東京は首都です。大阪は違います。", []string{"東京は首都です。", "大阪は違います。"}},
		{"empty", " \n\t ", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, s := range sentence.Split(c.text) {
				got = append(got, c.text[s.Start:s.End])
			}
			require.Equal(t, c.want, got)
		})
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("Ask Dr. A. B. Then 3.5 go.\n- x\n\n| y |")
	f.Add("\xff\xfe. \n A.\r\nB")
	f.Fuzz(func(t *testing.T, text string) {
		at := 0
		for _, s := range sentence.Split(text) {
			require.LessOrEqual(t, at, s.Start)
			require.Less(t, s.Start, s.End)
			require.Empty(t, strings.TrimFunc(text[at:s.Start], unicode.IsSpace), "only space between sentences")
			at = s.End
		}
		require.Empty(t, strings.TrimFunc(text[at:], unicode.IsSpace), "nothing left over")
	})
}
