package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	require.InDelta(t, 3, Percentile(values, 0.5), 0)
	require.InDelta(t, 5, Percentile(values, 0.95), 0)
	require.InDelta(t, 1, Percentile(values, 0), 0)
	require.InDelta(t, 5, Percentile(values, 1), 0)
	require.Zero(t, Percentile(nil, 0.5))
	require.InDelta(t, 3, Median(values), 0)
	require.InDelta(t, 2.5, Median([]float64{4, 1, 2, 3}), 0)
	require.Zero(t, Median(nil))
}

func TestLoad(t *testing.T) {
	l := Load{Clients: 3, Output: 5}
	for i := range 7 {
		l.Prompts = append(l.Prompts, []int32{int32(i)})
	}
	var mu sync.Mutex
	var asked []int32
	served, err := l.Run(t.Context(), func(_ context.Context, prompt []int32, maxTokens int) (Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, prompt[0])
		return Answer{First: time.Duration(prompt[0]) * time.Second, Total: time.Duration(prompt[0])*time.Second + time.Millisecond, Tokens: maxTokens, Cached: 2}, nil
	})
	require.NoError(t, err)
	slices.Sort(asked)
	require.Equal(t, []int32{0, 1, 2, 3, 4, 5, 6}, asked)
	require.InDelta(t, 3, served.P50, 1e-9)
	require.InDelta(t, 6, served.P95, 1e-9)
	require.InDelta(t, 2, served.Cached, 1e-9)
	require.InDelta(t, 6.0/7, served.Good/served.PerSecond, 1e-9) // the last one waited six seconds
	require.InDelta(t, 5, served.Tokens/served.PerSecond, 1e-9)

	broken := errors.New("broken")
	_, err = l.Run(t.Context(), func(context.Context, []int32, int) (Answer, error) { return Answer{}, broken })
	require.ErrorIs(t, err, broken)
}

func TestGood(t *testing.T) {
	require.True(t, Answer{First: goodFirst, Total: goodFirst + 10*goodPause, Tokens: 10}.good())
	require.False(t, Answer{First: goodFirst + 1, Total: goodFirst + 1, Tokens: 10}.good())
	require.False(t, Answer{First: time.Second, Total: time.Second + 11*goodPause, Tokens: 10}.good())
}

func TestOthers(t *testing.T) {
	begin := busy{all: 100, idle: 50, own: 20}
	require.InDelta(t, 0.25, busy{all: 200, idle: 100, own: 45}.others(begin), 1e-9)
	require.Zero(t, busy{all: 200, idle: 100, own: 80}.others(begin))
	require.Zero(t, begin.others(begin))
}
