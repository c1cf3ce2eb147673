package personal

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// rule finds one kind of number by its form, then by its check.
type rule struct {
	kind  Kind
	form  *regexp.Regexp
	after *regexp.Regexp // must stand shortly before; nil: the form and check are proof enough
	check func(compact string) (country string, ok bool)
}

func id(country, form, after string, check func(string) bool) rule {
	r := rule{kind: NationalID, form: regexp.MustCompile(form), check: func(s string) (string, bool) { return country, check(s) }}
	if after != "" {
		r.after = regexp.MustCompile(`(?i)(^|[^\pL])(` + after + `)[^\pL]`)
	}
	return r
}

// rules in order of precedence: a stretch of text is what the first rule says.
var rules = []rule{
	{IBAN, regexp.MustCompile(`[A-Z]{2}\d{2} ?(?:[A-Z0-9]{4} ?){2,7}[A-Z0-9]{1,4}`), nil, iban},
	{Card, regexp.MustCompile(`\d{4}([ -]?)\d{4}[ -]?\d{4}[ -]?\d{1,7}|3\d{3}[ -]?\d{6}[ -]?\d{4,5}`), nil, card},

	id("IT", `[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]`, "", codiceFiscale),
	id("FR", `[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}`, "", nir),
	id("CN", `[1-6]\d{5}(?:18|19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dX]`, "", residentID),
	id("MX", `[A-Z]{4}\d{6}[HM][A-Z]{5}[A-Z0-9]\d`, "", curp),
	id("CH", `756\.?\d{4}\.?\d{4}\.?\d{2}`, "", func(s string) bool { return weighted(s, "1313131313131", 10) == 0 }),
	id("ES", `(?:\d{8}|[XYZ]-?\d{7})-?[A-HJ-NP-TV-Z]`, "", dni),
	id("FI", `\d{6}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]`, "", hetu),
	id("KR", `\d{6}-[1-8]\d{6}`, "", rrn),
	id("SE", `(?:19|20)?\d{6}[-+]\d{4}`, "", personnummer),
	id("BE", `\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}`, "", rijksregister),
	id("BE", `\d{11}`, "rijksregister(?:nummer|nr)?|numéro national|registre national|niss|insz", rijksregister),
	id("BR", `\d{3}\.\d{3}\.\d{3}-\d{2}`, "", cpf),
	id("BR", `\d{11}`, "cpf", cpf),
	id("NO", `\d{6} ?\d{5}`, "", fodselsnummer),
	id("PL", `\d{11}`, "", pesel),
	id("ZA", `\d{13}`, "", southAfrican),
	id("TR", `[1-9]\d{10}`, "t\\.?c\\.?|tckn|kimlik(?: no)?", tckn),
	id("DE", `\d{2} \d{3} \d{3} \d{3}`, "", steuerID),
	id("DE", `\d{11}`, "steuer-?id(?:nr|entifikationsnummer)?|idnr|identifikationsnummer|tin|tax id", steuerID),
	id("US", `\d{3}-\d{2}-\d{4}`, "", ssn),
	id("GB", `[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]`, "", nino),
	id("GB", `\d{3} ?\d{3} ?\d{4}`, "nhs(?: no| number)?", nhs),
	id("NL", `\d{4}\.?\d{2}\.?\d{3}`, "bsn|burgerservicenummer|sofinummer", bsn),
	id("CA", `\d{3}[ -]\d{3}[ -]\d{3}`, "sin|social insurance(?: number)?|nas", luhn),
	id("IN", `[2-9]\d{3} \d{4} \d{4}`, "", verhoeff),
	id("IN", `[2-9]\d{11}`, "aadhaar|uidai|uid", verhoeff),
	id("IN", `[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]`, "pan(?: no| number)?", func(string) bool { return true }),
	id("DK", `\d{6}-?\d{4}`, "cpr(?:-?nr|-?nummer)?|personnummer", func(s string) bool { return date(s[4:6], s[2:4], s[0:2]) }),

	{Phone, regexp.MustCompile(`\+\d{1,3}[ ./-]?(?:\(0?\d{1,4}\)|\d{1,5})(?:[ ./-]?\d{1,6}){1,6}`), nil, international},
	{Phone, regexp.MustCompile(`00[1-9]\d{0,2}[ ./-]?\d{1,5}(?:[ ./-]?\d{2,6}){1,5}`), phoneWord, phoneLength},
	{Phone, regexp.MustCompile(`(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}`), nil, northAmerican},
	{Phone, regexp.MustCompile(`0[1-9](?:[ .]\d{2}){4}`), nil, phoneLength}, // France
	{Phone, regexp.MustCompile(`\(?0\d{1,5}\)?(?:[ ./-]{1,3}\d{2,8}){1,4}|0\d{8,11}|\d{3,4}[ -]\d{4}`), phoneWord, phoneLength},
}

// phoneWord stands before a telephone number in the languages that detection knows best.
var phoneWord = regexp.MustCompile(`(?i)(^|[^\pL])(tele(?:ph|f)on\w*|tel|phone|fon|fone|mobile?|mobil(?:e|funk|nummer)?|handy|cell|call|fax|téléphone|tél|portable|teléfono|móvil|telefone|celular|telefono|cellulare|telefoon|whatsapp|hotline|dial|телефон|тел|電話|电话|전화)[^\pL\d+(]{1,20}$`)

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// same: one digit over and over, a placeholder.
func same(s string) bool { return strings.Trim(s, s[:1]) == "" }

// weighted is the sum of digits times weights, modulo m.
func weighted(s, weights string, m int) int {
	sum := 0
	for i := range min(len(s), len(weights)) {
		sum += int(s[i]-'0') * int(weights[i]-'0')
	}
	return sum % m
}

func mod(s string, m int) int {
	r := 0
	for i := range len(s) {
		r = (r*10 + int(s[i]-'0')) % m
	}
	return r
}

// date: the day exists, in some century.
func date(yy, mm, dd string) bool {
	for _, century := range [...]string{"20", "19"} {
		if _, err := time.Parse("20060102", century+yy+mm+dd); err == nil {
			return true
		}
	}
	return false
}

func luhn(s string) bool {
	sum := 0
	for i := range len(s) {
		d := int(s[len(s)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0 && digits(s) && !same(s)
}

// issuers are prefixes of cards with the lengths that each has (ISO/IEC 7812 and the networks' own ranges).
var issuers = []struct {
	low, high int // of the first digits, as many as low has
	lengths   string
}{
	{4, 4, "13 16 19"}, {51, 55, "16"}, {2221, 2720, "16"}, {34, 34, "15"}, {37, 37, "15"}, {6011, 6011, "16 19"}, {644, 649, "16 19"}, {65, 65, "16 19"},
	{300, 305, "14"}, {36, 36, "14"}, {38, 39, "14"}, {3528, 3589, "16 17 18 19"}, {62, 62, "16 17 18 19"}, {2200, 2204, "16 17 18 19"}, {6759, 6759, "16 17 18 19"}, {676770, 676774, "16 17 18 19"},
}

func card(s string) (string, bool) {
	for _, is := range issuers {
		n, err := strconv.Atoi(s[:len(strconv.Itoa(is.low))])
		if err == nil && n >= is.low && n <= is.high && strings.Contains(is.lengths, strconv.Itoa(len(s))) {
			return "", luhn(s)
		}
	}
	return "", false
}

// ibanLengths by country (the registry of ISO 13616).
var ibanLengths = func() map[string]int {
	m := make(map[string]int)
	for _, f := range strings.Fields("AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20") {
		n, err := strconv.Atoi(f[2:])
		if err != nil {
			panic(err) // the list above
		}
		m[f[:2]] = n
	}
	return m
}()

func iban(s string) (string, bool) {
	country := s[:2]
	n := ibanLengths[country]
	if n == 0 || len(s) != n {
		return "", false
	}
	r := 0
	for _, c := range []byte(s[4:] + s[:4]) {
		if isDigit(c) {
			r = (r*10 + int(c-'0')) % 97
		} else {
			r = (r*100 + int(c-'A') + 10) % 97
		}
	}
	return country, r == 1
}

// callingCodes are the country codes of E.164.
var callingCodes = func() map[string]bool {
	m := make(map[string]bool)
	for _, c := range strings.Fields("1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86 90 91 92 93 94 95 98 211 212 213 216 218 " +
		"220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235 236 237 238 239 240 241 242 243 244 245 246 247 248 249 250 251 252 253 254 255 256 257 258 260 261 262 263 264 265 266 267 268 269 " +
		"290 291 297 298 299 350 351 352 353 354 355 356 357 358 359 370 371 372 373 374 375 376 377 378 380 381 382 383 385 386 387 389 420 421 423 500 501 502 503 504 505 506 507 508 509 590 591 592 593 594 595 596 597 598 599 " +
		"670 672 673 674 675 676 677 678 679 680 681 682 683 685 686 687 688 689 690 691 692 850 852 853 855 856 880 886 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977 979 992 993 994 995 996 998") {
		m[c] = true
	}
	return m
}()

func international(s string) (string, bool) {
	s = s[1:]
	if len(s) < 8 || len(s) > 15 || !digits(s) || same(s) {
		return "", false
	}
	return "", callingCodes[s[:1]] || callingCodes[s[:2]] || callingCodes[s[:3]]
}

func phoneLength(s string) (string, bool) {
	return "", digits(s) && len(s) >= 7 && len(s) <= 15 && !same(s)
}

// northAmerican numbers have area and exchange codes of 200 to 999.
func northAmerican(s string) (string, bool) {
	return "", len(s) == 10 && s[0] >= '2' && s[3] >= '2' && s[1:3] != "11" && !same(s)
}
