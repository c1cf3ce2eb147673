package answer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	for question, want := range map[string][]string{
		"What are the key benefits of the Northwind Platinum plan?": {"Northwind", "Platinum"},
		"What is the hotel limit per night in Oslo?":                {"Oslo"},
		"Is COBRA covered? Does it matter?":                         {"COBRA"},
		"Who is Contoso's CEO?":                                     {"Contoso", "CEO"},
		"how many days do i get":                                    nil,
		"WHAT IS THE LIMIT":                                         nil,
		"The Great Title Case Question":                             nil,
		"Wie hoch ist die Obergrenze in Oslo?":                      nil,
		"What do I get?":                                            nil,
		"":                                                          nil,
	} {
		require.Equal(t, want, names(question), question)
	}
}
