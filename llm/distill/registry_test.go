package distill

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegistry(t *testing.T) {
	r := Registry{filepath.Join(t.TempDir(), "students")}
	all, err := r.List()
	require.NoError(t, err)
	require.Empty(t, all)
	_, _, err = r.Revert("a")
	require.ErrorIs(t, err, ErrNone)
	require.ErrorIs(t, r.Install("one"), ErrNone)

	for _, e := range []Entry{{ID: "one", Slot: "a"}, {ID: "two", Slot: "a"}, {ID: "three", Slot: "b"}} {
		require.NoError(t, r.Add(e, map[string][]byte{"weights": []byte(e.ID)}))
	}
	require.NoError(t, os.MkdirAll(r.Path("unfinished"), 0o755))
	all, err = r.List()
	require.NoError(t, err)
	require.Len(t, all, 3)

	for _, id := range []string{"one", "two", "three", "two"} {
		require.NoError(t, r.Install(id))
	}
	in, err := r.Installed()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "two", "b": "three"}, in)
	was, now, err := r.Revert("a")
	require.NoError(t, err)
	require.Equal(t, "two", was)
	require.Equal(t, "one", now)
	_, now, err = r.Revert("a")
	require.NoError(t, err)
	require.Empty(t, now)
	in, err = r.Installed()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"b": "three"}, in)

	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, installedFile), []byte("{"), 0o600))
	_, err = r.Installed()
	require.ErrorContains(t, err, "damaged")
}
