package retrieve_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/retrieve"
)

// madeWith is an index whose vectors are of one model.
type madeWith struct {
	*index
	model string
}

func (x *madeWith) Dense(ctx context.Context, q embed.Vector, k int, f retrieve.Filter) ([]retrieve.Hit, error) {
	if f.Model != x.model {
		return nil, errors.New("made with " + x.model + ", asked with " + f.Model)
	}
	return x.index.Dense(ctx, q, k, f)
}

type named struct {
	embedder
	model string
}

func (e named) Model() string { return e.model }

// A migration switches the model of the corpora while a server runs: the next question asks with the new one, and only that question opens it.
func TestARetrieverFollowsTheModelOfItsCorpora(t *testing.T) {
	x := &madeWith{corpus(), "test"}
	opened := 0
	var refusal error
	r := retrieve.New(x, embedder{}, nil, retrieve.Config{Follow: func(_ context.Context, f retrieve.Filter) (embed.Embedder, error) {
		require.Equal(t, []string{"c"}, f.Corpora)
		opened++
		return named{model: x.model}, refusal
	}})
	ask := func() error {
		_, err := r.Retrieve(t.Context(), "q", retrieve.Filter{Corpora: []string{"c"}}, 3)
		return err
	}
	require.NoError(t, ask())
	require.Zero(t, opened)
	x.model = "other"
	require.NoError(t, ask())
	require.NoError(t, ask())
	require.Equal(t, 1, opened)

	x.err = errors.New("connection lost")
	require.ErrorContains(t, ask(), "dense leg: connection lost", "that is no matter of the model")
	x.err, x.model, refusal = nil, "third", errors.New("not on this machine")
	require.ErrorContains(t, ask(), "made with third, asked with other; and its model cannot be opened: not on this machine")
}
