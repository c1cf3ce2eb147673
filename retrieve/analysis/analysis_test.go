package analysis_test

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/french"
	"github.com/stretchr/testify/require"

	"ragd/retrieve/analysis"
)

func TestTerms(t *testing.T) {
	tests := []struct{ lang, text, want string }{
		{"en", "The Employees are reimbursed.", "employe reimburs"},
		{"", "Reimbursement of travelling costs", "reimburs travel cost"},
		{"en", "company's don’t", "compani"},
		{"en", "FooBar_baz HTTPServer getURL", "foobar_baz foo bar baz httpserver http server geturl get url"},
		{"en", "ORA-00942", "ora 00942 ora-00942"},
		{"en", "since 2024-01-15, at 10:30", "sinc 2024 01 15 2024-01-15 10 30 10:30"},
		{"en", "version 1.2.3 costs 1,234.50 or 0.75", "version 1.2.3 1 2 3 cost 1234.50 0.75"},
		{"en", "SHA256 of E1234", "sha256 sha 256 e1234 e 1234"},
		{"en", "pg_dump --no-owner", "pg_dump pg dump owner"},
		{"en", "C++ and C# and F#", "c c++ c c# f f#"},
		{"en", "x/y well-known", "x y well known"},
		{"en", "ﬁnal Ｆｕｌｌ ｗｉｄｔｈ", "final full width"},
		{"en", "co\u00adoperate", "cooper"},
		{"fr", "L’homme de l'été à Besançon", "homm ete besancon"},
		{"de", "Die Bären im Zoo", "baren zoo"},
		{"es", "las canciones españolas", "cancion espanol"},
		{"ru", "Ещё одна ёлка", "ещ одн елк"},
		{"pt-BR", "não é a ação", "acao"},
		{"sv", "flickorna och pojkarna", "flick pojk"},
		{"zh", "东京大学在东京", "东京 京大 大学 学在 在东 东京"},
		{"ja", "東京タワーへ行く", "東京 京タ タワ ワー ーへ へ行 行く"},
		{"ja", "茶", "茶"},
		{"ko", "서울에서", "서울 울에 에서"},
		{"th", "ภาษาไทย", "ภา าษ ษา าไ ไท ทย"},
		{"zh", "使用Go语言", "go 使用 语言"},
		{"ar", "كَتَبَ", "كتب"},
		{"hi", "हिन्दी भाषा", "हिन्दी भाषा"},
		{"en", "", ""},
		{"en", " \t\n .,;!? — “” ", ""},
		{"xx", "Running shoes", "running shoes"},
	}
	for _, test := range tests {
		t.Run(test.lang+"/"+test.text, func(t *testing.T) {
			require.Equal(t, test.want, strings.Join(analysis.Terms(test.text, test.lang), " "))
		})
	}
}

// What a document says and what a person types differ in case, number, accents and parts; they must meet.
func TestQuestionsMeetDocuments(t *testing.T) {
	for _, pair := range []struct{ lang, document, question string }{
		{"en", "Reimbursements", "reimbursed"},
		{"en", "the maxConnections setting", "max connections"},
		{"en", "max_connections", "max connections"},
		{"en", "1,000,000 rows", "1000000"},
		{"fr", "l’Élève", "eleve"},
		{"de", "Überstunden", "uberstunden"},
		{"ru", "самолёт", "самолет"},
		{"zh", "我们在东京大学学习", "东京大学"},
		{"en", "error E-4711 occurred", "e-4711"},
	} {
		document := map[string]bool{}
		for _, term := range analysis.Terms(pair.document, pair.lang) {
			document[term] = true
		}
		for _, term := range analysis.Terms(pair.question, pair.lang) {
			require.True(t, document[term], "%q of %q is not in %q", term, pair.question, pair.document)
		}
	}
}

func TestReadings(t *testing.T) {
	all := []string{"en", "de", "ar", "hi", "ru", "nb", "no", "zh", "pt-BR"}
	for q, want := range map[string]string{
		"working hours":   "en de ar nb pt-BR", // one of those of which nothing is known, one Norwegian
		"отпуск":          "ar ru",
		"отпуск в Google": "en de ar ru nb pt-BR",
		"大学":              "ar",
		"4711":            "ar",
		"":                "ar",
	} {
		require.Equal(t, want, strings.Join(analysis.Readings(q, all), " "), q)
	}
	require.Equal(t, []string{"en"}, analysis.Readings("大学", []string{"en", "de"}))
	require.Equal(t, []string{""}, analysis.Readings("hours", []string{"", "en"}), "an unknown language is read as English")
	require.Empty(t, analysis.Readings("x", nil))
}

func TestIsEnglish(t *testing.T) {
	for q, want := range map[string]bool{"How many?": true, "": true, "4711": true, "¿Cuántos?": true, "сколько": false, "多少钱": false, "كم": false, "Сколько стоит API?": false} {
		require.Equal(t, want, analysis.IsEnglish(q, nil), q)
	}
	require.False(t, analysis.IsEnglish("wie viele", []string{"de", "fr"}))
	require.True(t, analysis.IsEnglish("how many", []string{"de", "en"}))
	require.True(t, analysis.IsEnglish("how many", []string{""}))
}

func FuzzTerms(f *testing.F) {
	for _, s := range []string{"The FooBar_baz costs 1,234.50", "東京タワー C++", "\x00\xff\xfe", "a\u0300\u0301\u0302", strings.Repeat("a", 100), "ﷺ", "1.2.3.4-5/6", "l’été", "\U0001F468\u200d\U0001F469", "ё", "İ"} {
		for _, lang := range []string{"en", "fr", "es", "ru", "sv", "no", "hu", "zh", ""} {
			f.Add(s, lang)
		}
	}
	f.Fuzz(func(t *testing.T, text, lang string) {
		terms := analysis.Terms(text, lang)
		for _, term := range terms {
			if len(term) == 0 || len(term) > 64 || !utf8.ValidString(term) || strings.ContainsRune(term, 0) {
				t.Errorf("term %q of %q", term, text)
			}
		}
		require.Equal(t, terms, analysis.Terms(text, lang))
	})
}

func BenchmarkTerms(b *testing.B) {
	text := strings.Repeat("The reimbursement of travelling costs, as of 2024-01-15, is limited by max_connections to 1,234.50 per employee. ", 10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		analysis.Terms(text, "en")
	}
}

// Stems are those of their word and language, also where words share a slot of the memory for stems and several texts are read at once.
func TestStemsAreRemembered(t *testing.T) {
	words := make([]string, 40_000) // more than there is room for
	for i := range words {
		for n := i*i + 1; n > 0; n /= 26 {
			words[i] += string(rune('a' + n%26))
		}
		words[i] += "ions"
	}
	var readers sync.WaitGroup
	for code, stem := range map[string]func(string, bool) string{"en": english.Stem, "fr": french.Stem} {
		readers.Go(func() {
			for range 2 {
				for _, word := range words {
					if got := analysis.Terms(word, code); len(got) != 1 || got[0] != stem(word, true) {
						t.Errorf("%s: the stem of %q is %q, want %q", code, word, got, stem(word, true))
						return
					}
				}
			}
		})
	}
	readers.Wait()
}
