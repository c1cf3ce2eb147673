package distill

import (
	"encoding/xml"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCurve(t *testing.T) {
	c := Curve{"falling <fast>", []float64{8, 7, 6, 5, 4, 3, 2, 1}}
	require.Equal(t, "█▇▆▅▄▃▂▁", c.Sparkline(20))
	require.Equal(t, "█▁", c.Sparkline(2))
	require.Empty(t, Curve{}.Sparkline(5))
	for _, curves := range [][]Curve{{c}, {c, {"flat", []float64{1, 1}}}, {{"one", []float64{3}}}} {
		var any struct{ XMLName xml.Name }
		require.NoError(t, xml.Unmarshal([]byte(SVG("a & b", "nats", curves...)), &any))
		require.Equal(t, "svg", any.XMLName.Local)
	}
}
