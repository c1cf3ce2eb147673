package answer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARewrittenQuestionKeepsWhatWasAsked(t *testing.T) {
	require.True(t, keeps("How many vacation days do part-time employees have?", "And part-time employees?"))
	require.False(t, keeps("How many vacation days can be carried over?", "What is the hotel limit per night in Oslo?"))
	require.True(t, keeps("How long is the trial period?", "How long is it?"))
}
