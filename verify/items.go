package verify

import (
	"regexp"
	"slices"
	"strings"
)

var (
	ordinals = regexp.MustCompile(`(?m)^[ \t*-]*(?:1?\d|20)[.)][ \t]+[\pL"“*]`)                            // "1. Ask first": the place of an item in the answer's own list
	inline   = regexp.MustCompile(`(?:^|[\s:;,])(\((\d{1,2}|[a-h]|[ivx]{1,4})\)|(\d{1,2}|[a-h])\))[ \t]+`) // "(1) Ask first (2) keep the receipts", "a) ask b) keep"
	dashed   = regexp.MustCompile(`(?:^|[\s:])([-–•*·])[ \t]+\pL`)                                         // "- Ask first - Keep the receipts" on one line
	between  = regexp.MustCompile(`[,;/]\s+(?:(?:and|or|then|und|oder|et|ou|y|o|og|en)\s+)?|\s+(?:and|or|then|und|oder|et|ou|y|o|og|en)\s+`)
	phrase   = regexp.MustCompile(`^\p{Lu}\p{Ll}+\s+[\p{Ll}\d]`)
	// told is how an item begins that tells somebody to do something: no name is followed by one of these words.
	told = regexp.MustCompile(`^\p{Lu}\p{Ll}+\s+(?:your|the|a|an|all|any|every|each|no|my|our|their|it|them|to)\s`)
)

// itemMarks are the places [start, end) that say which item of the statement's own list follows. A number in them states nothing.
func itemMarks(statement string) (marks [][2]int) {
	for _, at := range ordinals.FindAllStringIndex(statement, -1) {
		marks = append(marks, [2]int{at[0], at[1]})
	}
	// Inside a line only marks that count from the first are certain to be some: "(1) ... (2)", "a) ... b)".
	for _, count := range [][]string{{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}, {"a", "b", "c", "d", "e", "f", "g", "h"}, {"i", "ii", "iii", "iv", "v", "vi", "vii", "viii"}} {
		var found [][2]int
		for _, m := range inline.FindAllStringSubmatchIndex(statement, -1) {
			group := 4 // between brackets
			if m[group] < 0 {
				group = 6
			}
			if len(found) < len(count) && statement[m[group]:m[group+1]] == count[len(found)] {
				found = append(found, [2]int{m[2], m[1]})
			}
		}
		if len(found) > 1 {
			marks = append(marks, found...)
		}
	}
	signs := map[string][][2]int{}
	for _, m := range dashed.FindAllStringSubmatchIndex(statement, -1) {
		sign := statement[m[2]:m[3]]
		signs[sign] = append(signs[sign], [2]int{m[2], m[3] + 1})
	}
	for _, all := range signs {
		// One dash begins an aside, and so does a pair: "the office - Oslo - closes". A list has a colon before its first item, or begins with it.
		if before := strings.TrimRight(statement[:all[0][0]], " \t\n"); len(all) > 1 && (before == "" || strings.HasSuffix(before, ":")) {
			marks = append(marks, all...)
		}
	}
	return marks
}

// itemStarts are the places where an item of a list begins after a colon: "It lists: Keep your card, Ask before a journey and Write down what you paid."
// The first word of each says nothing by its capital. Names stand in such lists, too, so one item at least must be told to somebody.
func itemStarts(statement string) (starts []int) {
	for at := 0; at < len(statement); {
		colon := strings.Index(statement[at:], ": ")
		if colon < 0 {
			break
		}
		at += colon + 2
		end := len(statement)
		if stop := strings.IndexAny(statement[at:], ".!?\n"); stop >= 0 {
			end = at + stop
		}
		list, items, telling := statement[at:end], []int{0}, false
		for _, gap := range between.FindAllStringIndex(list, -1) {
			items = append(items, gap[1])
		}
		items = slices.DeleteFunc(items, func(i int) bool { return !phrase.MatchString(list[i:]) })
		for _, i := range items {
			telling = telling || told.MatchString(list[i:])
		}
		for _, i := range items {
			if telling {
				starts = append(starts, at+i)
			}
		}
	}
	return starts
}
