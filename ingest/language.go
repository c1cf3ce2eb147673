package ingest

import (
	"strings"
	"unicode"

	"github.com/abadojack/whatlanggo"
)

// languages are those that detection may answer: the ones full-text search has
// a stemmer for, and the large ones without. Without the list, short Dutch
// comes out as Afrikaans and short Turkish as Uzbek.
var languages = func() map[whatlanggo.Lang]bool {
	m := make(map[whatlanggo.Lang]bool)
	for _, l := range []whatlanggo.Lang{
		whatlanggo.Eng, whatlanggo.Deu, whatlanggo.Fra, whatlanggo.Spa, whatlanggo.Ita, whatlanggo.Por, whatlanggo.Nld,
		whatlanggo.Dan, whatlanggo.Nob, whatlanggo.Swe, whatlanggo.Fin, whatlanggo.Hun, whatlanggo.Ron, whatlanggo.Pol,
		whatlanggo.Ces, whatlanggo.Tur, whatlanggo.Rus, whatlanggo.Ukr, whatlanggo.Ell, whatlanggo.Arb, whatlanggo.Heb,
		whatlanggo.Hin, whatlanggo.Cmn, whatlanggo.Jpn, whatlanggo.Kor, whatlanggo.Vie, whatlanggo.Ind, whatlanggo.Tha,
	} {
		m[l] = true
	}
	return m
}()

// languageSample is enough to be sure and short enough for whatlanggo, whose
// confidence turns negative on long samples.
const languageSample = 2 << 10

// language is the ISO 639-1 code of text's main language, "" when unsure. It
// looks at the middle first: title pages and licences mislead.
func language(text string) string {
	for _, quarter := range [...]int{2, 1, 3} {
		sample := text
		if len(text) > languageSample {
			start := (len(text) - languageSample) / 4 * quarter
			sample = strings.ToValidUTF8(text[start:start+languageSample], "")
		}
		if code := languageOf(sample); code != "" || len(text) <= languageSample {
			return code
		}
	}
	return ""
}

// mixedLanguages samples a document all over: looking at every passage of a
// book in one language would cost more than splitting it.
func mixedLanguages(d *Document) bool {
	if d.Language == "" {
		return false
	}
	const samples = 8
	if len(d.Text) < samples*languageSample {
		return true // short enough to look at each
	}
	for i := range samples {
		start := (len(d.Text) - languageSample) / (samples - 1) * i
		if l := languageOf(strings.ToValidUTF8(d.Text[start:start+languageSample], "")); l != "" && l != d.Language {
			return true
		}
	}
	return false
}

// languageOf looks at the whole sample.
func languageOf(sample string) string {
	if code := byScript(sample); code != "" {
		return code
	}
	info := whatlanggo.DetectWithOptions(sample, whatlanggo.Options{Whitelist: languages})
	if info.Lang < 0 || len(sample) < 60 || !info.IsReliable() {
		return ""
	}
	return info.Lang.Iso6391()
}

// byScript answers where the script alone decides.
func byScript(text string) string {
	var han, kana, hangul, letters int
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r):
			continue
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			kana++
		case unicode.Is(unicode.Hangul, r):
			hangul++
		case unicode.Is(unicode.Han, r):
			han++
		}
		letters++
	}
	switch {
	case letters == 0:
		return ""
	case kana*20 > letters && (han+kana)*3 > letters:
		return "ja"
	case hangul*3 > letters:
		return "ko"
	case han*3 > letters:
		return "zh"
	}
	return ""
}
