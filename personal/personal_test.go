package personal

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words that must stand before a country's number.
var words = map[string]string{"NL": "BSN: ", "CA": "SIN ", "TR": "TCKN: "}

// TestNumbers: python-stdnum made the numbers and says which are valid (testdata/make_numbers.py).
func TestNumbers(t *testing.T) {
	data, err := os.ReadFile("testdata/numbers.json")
	require.NoError(t, err)
	var all map[string]struct{ Valid, Invalid []string }
	require.NoError(t, json.Unmarshal(data, &all))
	require.Len(t, all, 21)
	for country, list := range all {
		want := NationalID
		switch country {
		case "card":
			want = Card
		case "iban":
			want = IBAN
		}
		is := func(s string) bool {
			text := "Please note " + words[country] + s + ", as agreed."
			for _, f := range Find(text) {
				if f.Kind == want && text[f.Start:f.End] == s && (f.Country == country || want != NationalID) {
					return true
				}
			}
			return false
		}
		for _, s := range list.Valid {
			if !is(s) {
				t.Errorf("%s: %s is valid and not found", country, s)
			}
		}
		for _, s := range list.Invalid {
			if is(s) {
				t.Errorf("%s: %s is not valid and found", country, s)
			}
		}
	}
}

func TestFind(t *testing.T) {
	for text, want := range map[string]string{
		"Write to jane.doe+x@mail.acme.co.uk.":                    "email jane.doe+x@mail.acme.co.uk",
		"<a@b.io>, 'c@d.org'":                                     "email a@b.io; email c@d.org",
		"Call +49 (0)30 901820 or +1 212-736-5000.":               "phone +49 (0)30 901820; phone +1 212-736-5000",
		"Tel.: 030 / 90 18 20":                                    "phone 030 / 90 18 20",
		"phone: (212) 736-5000":                                   "phone (212) 736-5000",
		"Tél. 01 42 68 53 00":                                     "phone 01 42 68 53 00",
		"card 4111 1111 1111 1111 exp 12/27":                      "card 4111 1111 1111 1111",
		"Amex 3782 822463 10005.":                                 "card 3782 822463 10005",
		"5555555555554444":                                        "card 5555555555554444",
		"DE89 3704 0044 0532 0130 00 and GB82WEST12345698765432.": "iban DE89 3704 0044 0532 0130 00; iban GB82WEST12345698765432",
		"SSN 536-90-4399":                                         "national_id 536-90-4399",
		"NI number AB 12 34 56 C.":                                "national_id AB 12 34 56 C",
		"NHS number 943 476 5919":                                 "national_id 943 476 5919",
		"RSSMRA85T10A562S was born":                               "national_id RSSMRA85T10A562S",
		// decoys
		"user@example.com, icon@2x.png, git@host.io:a/b.git, x@y": "",
		"git clone git@github.com:org/repo.git":                   "",
		"npm i left-pad@1.3.0":                                    "",
		"Order 4111 1111 1111 1112":                               "",
		"0.4111111111111111 and 1.5e10":                           "",
		"4111-1111-1111-1111-9":                                   "",
		"id 00000000000000000000":                                 "",
		"invoice 2024-000123456, 12.03.2024 10:15:30":             "",
		"ISBN 978-3-16-148410-0, DOI 10.1000/182":                 "",
		"DE89 3704 0044 0532 0130 01":                             "",
		"SSN 000-12-3456 or 666-12-3456":                          "",
		"2001:db8:85a3::8a2e:370:7334 192.168.100.200":            "",
		"sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c": "",
		"1 000 000 000 EUR, 12 345 678 units, 2019-2024":          "",
		"uuid 123e4567-e89b-12d3-a456-426614174000":               "",
		"version 1.2.3.4.5.6.7.8 build 20240131123456":            "",
		"pi is 3.141592653589793238462643383279":                  "",
		"12345678901234567890":                                    "",
		"":                                                        "",
	} {
		var got []string
		for _, f := range Find(text) {
			got = append(got, string(f.Kind)+" "+text[f.Start:f.End])
		}
		require.Equal(t, want, strings.Join(got, "; "), "in %q", text)
	}
}

func TestHide(t *testing.T) {
	text := "Jörg: jorg@acme.de, Karte 4111 1111 1111 1111."
	require.Equal(t, "Jörg: ****@****.**, Karte **** **** **** ****.", Hide(text))
	require.Len(t, Hide(text), len(text))
	require.Equal(t, "nothing here", Hide("nothing here"))
	require.Equal(t, []string{"card", "email"}, Kinds(text))
	require.Empty(t, Kinds("nothing here"))
}

func FuzzFind(f *testing.F) {
	f.Add("a@b.cd +49 30 901820 4111 1111 1111 1111 DE89 3704 0044 0532 0130 00 RSSMRA85T10A562S 536-90-4399")
	f.Add("AB 12 34 56 C 2A@ 010190-123A 99999999R\xff\x00")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, x := range Find(text) {
			if x.Start < last || x.End <= x.Start || x.End > len(text) {
				t.Fatalf("%v after %d", x, last)
			}
			last = x.End
		}
		if m := Hide(text); len(m) != len(text) {
			t.Fatalf("%d bytes became %d", len(text), len(m))
		}
	})
}

func BenchmarkFind(b *testing.B) {
	text := strings.Repeat("The quick brown fox paid 12.50 on 2024-01-31 and 1200 later. ", 20000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Find(text)
	}
}

// BenchmarkTable is the worst case: figures only.
func BenchmarkTable(b *testing.B) {
	var table strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&table, "%d,%d.25,%d\n%d %d %05d %d\n", i, i*7919%1000, i*104729%1_000_000_000, i*31%1000, i*15485863%1_000_000_000, i, i*7919)
	}
	text := table.String()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Find(text)
	}
}

// TestForms: what is passed over before a rule's expression is tried could not have matched it.
func TestForms(t *testing.T) {
	text, err := os.ReadFile("personal_test.go") // as good as any: it holds numbers of every kind
	require.NoError(t, err)
	text = append(text, "+49 30 1234567 0049 30 1234567 01 23 45 67 89 AB12 2013-04-05 123-45-6789 1.234.567,89"...)
	for i, r := range rules {
		var inRuns int
		forms[i].runs(string(text), 0, len(text), func(start, end int) { inRuns += len(r.form.FindAllIndex(text[start:end], -1)) })
		require.Len(t, r.form.FindAllIndex(text, -1), inRuns, "%s", r.form)
	}
}
