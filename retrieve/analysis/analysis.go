package analysis

import "strings"

// Terms is the lexical analyzer.
func Terms(text, lang string) []string { return strings.Fields(strings.ToLower(text)) }
