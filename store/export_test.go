package store

// SetExactLimit lets tests have a vector index on few vectors.
func (s *Store) SetExactLimit(vectors int64) { s.exactLimit = vectors }
