package eval

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMetricsByHand(t *testing.T) {
	gains := map[string]float64{"a": 2, "b": 1}
	ranked := []string{"x", "a", "y", "b"}
	// DCG = 2/log2(3) + 1/log2(5); ideal = 2/log2(2) + 1/log2(3).
	require.InDelta(t, (2/math.Log2(3)+1/math.Log2(5))/(2+1/math.Log2(3)), NDCG(ranked, gains, 10), 1e-12)
	require.InDelta(t, 2/math.Log2(3)/(2+1/math.Log2(3)), NDCG(ranked, gains, 3), 1e-12)
	require.InDelta(t, 0.5, ReciprocalRank(ranked, gains, 10), 1e-12)
	require.Zero(t, ReciprocalRank(ranked, gains, 1))
	require.InDelta(t, 0.5, Recall(ranked, gains, 2), 1e-12)
	require.InDelta(t, 1, Recall(ranked, gains, 10), 1e-12)
	require.Zero(t, NDCG(ranked, nil, 10))
}

func TestPercentileIsNearestRank(t *testing.T) {
	took := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	require.Equal(t, time.Duration(5), percentile(took, 50))
	require.Equal(t, time.Duration(10), percentile(took, 95))
	require.Equal(t, time.Duration(1), percentile(took[:1], 95))
}
