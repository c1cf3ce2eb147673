package store_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/retrieve"
	"ragd/retrieve/indextest"
	"ragd/store"
)

// replicated opens a store with a streaming replica that has caught up.
func replicated(t *testing.T) (s *store.Store, primary, standby pgtest.Server) {
	t.Helper()
	ctx := context.Background()
	primary = pgtest.NewServer(t)
	s, err := store.Open(ctx, primary.URL, quiet)
	require.NoError(t, err)
	standby = primary.Replica(t)
	require.NoError(t, s.UseReplicas(ctx, []string{standby.URL}))
	t.Cleanup(s.Close)
	return s, primary, standby
}

func replayed(t *testing.T, s *store.Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		states, err := s.Replicas(context.Background())
		return err == nil && len(states) == 1 && states[0].Err == nil && states[0].Bytes == 0
	}, time.Minute, 20*time.Millisecond)
}

func TestSearchesReadFromAReplicaThatIsUpToDate(t *testing.T) {
	ctx := context.Background()
	s, _, standby := replicated(t)
	f := retrieve.Filter{}
	find := func(word string) int {
		t.Helper()
		hits, err := s.Lexical(ctx, word, 3, f)
		require.NoError(t, err)
		return len(hits)
	}
	loader{s}.Load(t, page("a", "one whale"))
	replayed(t, s)
	require.Equal(t, 1, find("whale"))
	near, err := s.Dense(ctx, unit(0), 3, f)
	require.NoError(t, err)
	require.Len(t, near, 1)
	passages, err := s.Passages(ctx, []retrieve.PassageID{near[0].ID}, f)
	require.NoError(t, err)
	require.Len(t, passages, 1)
	served, behind, failed := s.ReplicaReads()
	require.Equal(t, [3]int64{3, 0, 0}, [3]int64{served, behind, failed})

	// A replica that does not go on is behind; who has added a document finds it all the same, and one that was deleted is gone.
	admin, err := pgx.Connect(ctx, standby.URL)
	require.NoError(t, err)
	defer admin.Close(ctx)
	_, err = admin.Exec(ctx, `SELECT pg_wal_replay_pause()`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var state string
		require.NoError(t, admin.QueryRow(ctx, `SELECT pg_get_wal_replay_pause_state()`).Scan(&state))
		return state == "paused"
	}, time.Minute, 10*time.Millisecond)
	id := loader{s}.Load(t, page("b", "two whale"))
	require.Equal(t, 2, find("whale"))
	loader{s}.Delete(t, "", id)
	require.Equal(t, 1, find("whale"))
	loader{s}.Load(t, indextest.Document{Tenant: "other", Corpus: "c", Path: "a", Passages: []indextest.Passage{{Text: "third whale", Language: "en", Vector: unit(0)}}})
	f.Tenant = "other"
	require.Equal(t, 1, find("whale"))
	served, behind, failed = s.ReplicaReads()
	require.Equal(t, [3]int64{3, 3, 0}, [3]int64{served, behind, failed})
	_, err = admin.Exec(ctx, `SELECT pg_wal_replay_resume()`)
	require.NoError(t, err)
	replayed(t, s)
	require.Equal(t, 1, find("whale"))
	served, _, _ = s.ReplicaReads()
	require.Equal(t, int64(4), served)

	// The second belt holds on a replica, too: a request of one tenant sees nothing of another whatever is asked for.
	hits, err := s.Lexical(store.As(ctx, "default"), "third", 3, f)
	require.NoError(t, err)
	require.Empty(t, hits)
}

func TestPrimaryAnswersWhileAReplicaIsDown(t *testing.T) {
	ctx := context.Background()
	s, _, standby := replicated(t)
	loader{s}.Load(t, page("a", "one whale"))
	replayed(t, s)
	standby.Signal(t, syscall.SIGKILL)
	for range 50 { // until its processes have noticed they may answer
		hits, err := s.Lexical(ctx, "whale", 3, retrieve.Filter{})
		require.NoError(t, err)
		require.Len(t, hits, 1)
	}
	require.Eventually(t, func() bool { // it comes back by itself, and is used again
		s.AskReplicasAgain()
		before, _, failed := s.ReplicaReads()
		hits, err := s.Lexical(ctx, "whale", 3, retrieve.Filter{})
		require.NoError(t, err)
		require.Len(t, hits, 1)
		after, _, _ := s.ReplicaReads()
		return after > before && failed > 0
	}, time.Minute, 20*time.Millisecond)
}

func TestReplicasThatCannotBeUsed(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	require.ErrorContains(t, s.UseReplicas(ctx, []string{"postgres://%zz"}), "replica 1")
	// One is not there, the other is a database without a schema.
	require.NoError(t, s.UseReplicas(ctx, []string{"postgres://nobody@127.0.0.1:1/x", pgtest.Empty(t)}))
	loader{s}.Load(t, page("a", "one whale"))
	for range 4 {
		hits, err := s.Lexical(ctx, "whale", 3, retrieve.Filter{})
		require.NoError(t, err)
		require.Len(t, hits, 1)
	}
	_, _, failed := s.ReplicaReads()
	require.Equal(t, int64(2), failed, "each is left alone after its first failure")
	states, err := s.Replicas(ctx)
	require.NoError(t, err)
	require.Error(t, states[0].Err)
}
