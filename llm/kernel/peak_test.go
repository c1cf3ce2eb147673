package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeasurements(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a second")
	}
	p := testPool(t, 2)
	require.Positive(t, MeasureReadBandwidth(p))
	require.Positive(t, MeasureRereadBandwidth(p, 0))
	require.Positive(t, MeasureInt8Peak(p))
}
