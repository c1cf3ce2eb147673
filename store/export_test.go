package store

// SetExactLimit lets tests have a vector index on few vectors.
func (s *Store) SetExactLimit(vectors int64) { s.exact = vectors }

// AskReplicasAgain ends the time for which replicas that failed are left alone.
func (s *Store) AskReplicasAgain() {
	for _, r := range s.replicas.all {
		r.away.Store(0)
	}
}

// SetPlainLimits lets tests have a question's postings read the rarest first, some blocks at a time, where there are few.
func (s *Store) SetPlainLimits(passages int64, blocks int) { s.plain, s.blocks = passages, blocks }
