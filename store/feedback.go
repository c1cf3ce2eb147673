package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Feedback is what somebody thinks of an answer: a question for evaluation, in the words of people who ask.
type Feedback struct {
	ID       int64
	Answer   string // id of its record, which may be gone
	Question string
	Corpora  []string // that the answer was written from
	Cited    []string // paths
	Good     bool
	Comment  string
	Expected string // the right answer; "" when it was not said
	At       time.Time
}

// SaveFeedback keeps f; ID and At are the database's.
func (s *Store) SaveFeedback(ctx context.Context, tenant string, f Feedback) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO feedback (tenant, answer, question, corpora, cited, good, comment, expected) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		tenantOf(tenant), clean(f.Answer), clean(f.Question), cleanAll(f.Corpora), cleanAll(f.Cited), f.Good, clean(f.Comment), clean(f.Expected))
	return wrap("keep feedback", err)
}

// Feedback lists what was said in the order in which it was, after the id given, at most limit.
func (s *Store) Feedback(ctx context.Context, tenant string, after int64, limit int) ([]Feedback, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, answer, question, corpora, cited, good, comment, expected, at FROM feedback WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3`,
		tenantOf(tenant), after, limit)
	if err != nil {
		return nil, wrap("list feedback", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Feedback])
	return list, wrap("list feedback", err)
}
