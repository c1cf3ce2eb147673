package kernel

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testISAs returns the sets available here and puts the active one back afterwards; the caller loops over them. With
// RAGD_REQUIRE_ISA, a comma-separated list, a missing one fails the test. AVX2 comes a second time without AVX-VNNI.
func testISAs(t testing.TB) func(func(int, ISA) bool) {
	before := Active()
	t.Cleanup(func() { require.NoError(t, SetISA(before)) })
	if names := os.Getenv("RAGD_REQUIRE_ISA"); names != "" {
		for _, name := range strings.Split(names, ",") {
			_, err := chooseISA(name)
			require.NoError(t, err)
		}
	}
	return func(yield func(int, ISA) bool) {
		for i, isa := range Available() {
			require.NoError(t, SetISA(isa))
			if !yield(i, isa) {
				return
			}
			if restore := withoutVNNI(isa); restore != nil {
				again := func() bool {
					defer restore() // also when the test fails in yield
					return yield(i, isa)
				}()
				if !again {
					return
				}
			}
		}
	}
}

func TestChooseISA(t *testing.T) {
	best := Available()[len(Available())-1]
	isa, err := chooseISA("")
	require.NoError(t, err)
	require.Equal(t, best, isa)
	isa, err = chooseISA("GENERIC")
	require.NoError(t, err)
	require.Equal(t, Generic, isa)
	isa, err = chooseISA("sse9")
	require.ErrorContains(t, err, "sse9")
	require.Equal(t, best, isa)
	require.Error(t, SetISA(ISA(9)))
}
