package personal

import "strings"

// codiceFiscale (Italy): odd places by table, even ones by value, modulo 26.
func codiceFiscale(s string) bool {
	odd := [...]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23}
	sum := 0
	for i := range 15 {
		v := int(s[i] - '0')
		if !isDigit(s[i]) {
			v = int(s[i] - 'A')
		}
		if i%2 == 0 {
			v = odd[v]
		}
		sum += v
	}
	return int(s[15]-'A') == sum%26
}

// nir (France): the last two digits are 97 less the rest modulo 97; Corsica's departments count as 19 and 18.
func nir(s string) bool {
	s = strings.Replace(strings.Replace(s, "2A", "19", 1), "2B", "18", 1)
	return len(s) == 15 && digits(s) && 97-mod(s[:13], 97) == mod(s[13:], 100)
}

// residentID (China): GB 11643, ISO 7064 mod 11-2.
func residentID(s string) bool {
	weights := [...]int{7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2}
	sum := 0
	for i, w := range weights {
		sum += int(s[i]-'0') * w
	}
	return "10X98765432"[sum%11] == s[17] && date(s[8:10], s[10:12], s[12:14])
}

// curp (Mexico): weights 18 to 2 over an alphabet with Ñ, modulo 10.
func curp(s string) bool {
	const alphabet = "0123456789ABCDEFGHIJKLMN_OPQRSTUVWXYZ" // _ stands for Ñ
	sum := 0
	for i := range 17 {
		sum += strings.IndexByte(alphabet, s[i]) * (18 - i)
	}
	return int(s[17]-'0') == (10-sum%10)%10 && date(s[4:6], s[6:8], s[8:10])
}

// dni and nie (Spain): a letter by the number modulo 23.
func dni(s string) bool {
	number := s[:len(s)-1]
	if i := strings.IndexByte("XYZ", number[0]); i >= 0 {
		number = string(rune('0'+i)) + number[1:]
	}
	return len(number) == 8 && digits(number) && !same(number) && "TRWAGMYFPDXBNJZSQVHLCKE"[mod(number, 23)] == s[len(s)-1]
}

// hetu (Finland): date and serial modulo 31. The century sign may be gone with the separators.
func hetu(s string) bool {
	if len(s) == 11 {
		s = s[:6] + s[7:]
	}
	return len(s) == 10 && digits(s[:9]) && date(s[4:6], s[2:4], s[:2]) && "0123456789ABCDEFHJKLMNPRSTUVWXY"[mod(s[:9], 31)] == s[9]
}

// rrn (Korea).
func rrn(s string) bool {
	return date(s[:2], s[2:4], s[4:6]) && (11-weighted(s[:12], "234567892345", 11))%10 == int(s[12]-'0')
}

// personnummer (Sweden): Luhn over date and serial.
func personnummer(s string) bool {
	s = s[len(s)-10:]
	return date(s[:2], s[2:4], s[4:6]) && luhn(s)
}

// rijksregister (Belgium): 97 less the number modulo 97; 2 is put before it for those born since 2000.
func rijksregister(s string) bool {
	check := mod(s[9:], 100)
	return date(s[:2], s[2:4], s[4:6]) && (97-mod(s[:9], 97) == check || 97-mod("2"+s[:9], 97) == check)
}

// cpf (Brazil): two digits modulo 11.
func cpf(s string) bool {
	digit := func(n int) int {
		sum := 0
		for i := range n {
			sum += int(s[i]-'0') * (n + 1 - i)
		}
		return sum * 10 % 11 % 10
	}
	return !same(s) && digit(9) == int(s[9]-'0') && digit(10) == int(s[10]-'0')
}

// fodselsnummer (Norway): a date and two digits modulo 11.
func fodselsnummer(s string) bool {
	return date(s[4:6], s[2:4], s[:2]) && weighted(s, "3761894521", 11) == 0 && weighted(s, "54327654321", 11) == 0
}

// pesel (Poland): a date whose month tells the century, and a digit modulo 10.
func pesel(s string) bool {
	month := mod(s[2:4], 20)
	return month >= 1 && month <= 12 && date(s[:2], string([]byte{byte('0' + month/10), byte('0' + month%10)}), s[4:6]) && weighted(s, "13791379131", 10) == 0
}

// southAfrican: a date, citizenship 0 or 1, then 8 or 9, and Luhn.
func southAfrican(s string) bool {
	return date(s[:2], s[2:4], s[4:6]) && s[10] <= '1' && s[11] >= '8' && luhn(s)
}

// tckn (Turkey): two check digits.
func tckn(s string) bool {
	odd, even, all := 0, 0, 0
	for i := range 9 {
		v := int(s[i] - '0')
		if i%2 == 0 {
			odd += v
		} else {
			even += v
		}
		all += v
	}
	tenth := ((odd*7-even)%10 + 10) % 10
	return tenth == int(s[9]-'0') && (all+tenth)%10 == int(s[10]-'0')
}

// steuerID (Germany): ISO 7064 mod 11,10; among the first ten digits one occurs two or three times.
func steuerID(s string) bool {
	var count [10]int
	p := 10
	for i := range 10 {
		count[s[i]-'0']++
		v := (int(s[i]-'0') + p) % 10
		if v == 0 {
			v = 10
		}
		p = v * 2 % 11
	}
	repeated := 0
	for _, n := range count {
		if n > 1 {
			repeated++
		}
		if n > 3 {
			return false
		}
	}
	return s[0] != '0' && repeated == 1 && (11-p)%10 == int(s[10]-'0')
}

// ssn (United States): no check digit; some areas, groups and serials were never given out, two numbers were printed in advertisements.
func ssn(s string) bool {
	return s[:3] != "000" && s[:3] != "666" && s[0] != '9' && s[3:5] != "00" && s[5:] != "0000" && s != "078051120" && s != "219099999" && s != "123456789"
}

// nino (United Kingdom): no check digit; some prefixes are not used.
func nino(s string) bool {
	return !strings.Contains("BG GB NK KN TN NT ZZ", s[:2])
}

// nhs (England): modulo 11.
func nhs(s string) bool {
	check := 11
	for i := range 9 {
		check -= int(s[i]-'0') * (10 - i) % 11
	}
	check = ((check % 11) + 11) % 11
	return !same(s) && check == int(s[9]-'0')
}

// bsn (Netherlands): the eleven test.
func bsn(s string) bool {
	return !same(s) && (weighted(s[:8], "98765432", 11)-int(s[8]-'0')+11)%11 == 0
}

// verhoeff (Aadhaar, India): the dihedral group of order 10.
func verhoeff(s string) bool {
	d := [10]string{"0123456789", "1234067895", "2340178956", "3401289567", "4012395678", "5987604321", "6598710432", "7659821043", "8765932104", "9876543210"}
	p := [8]string{"0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258"}
	c := byte('0')
	for i := range len(s) {
		c = d[c-'0'][p[i%8][s[len(s)-1-i]-'0']-'0']
	}
	return c == '0' && !same(s)
}
