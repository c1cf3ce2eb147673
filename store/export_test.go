package store

// SetExactLimit lets tests have a vector index on few vectors.
func (s *Store) SetExactLimit(vectors int64) { s.exactLimit = vectors }

// AskReplicasAgain ends the time for which replicas that failed are left alone.
func (s *Store) AskReplicasAgain() {
	for _, r := range s.replicas.all {
		r.away.Store(0)
	}
}
