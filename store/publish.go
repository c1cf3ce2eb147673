package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
)

// Publish implements [ingest.Store]. Calls for one corpus that come while another is under way share the next transaction: they would wait for its lock
// anyway, and the posting blocks of terms that several documents have are then written once.
func (s *Store) Publish(ctx context.Context, job *ingest.Job) error {
	p := &publication{job: job, done: make(chan error, 1)}
	if s.publishing.enqueue(p) {
		go s.publishQueued(context.WithoutCancel(ctx), corpusOf(job)) // others may wait for it when this caller has left
	}
	select {
	case err := <-p.done:
		if err == nil {
			job.State = p.state
		}
		return wrap("publish "+job.Path, err)
	case <-ctx.Done():
		return wrap("publish "+job.Path, ctx.Err())
	}
}

// publication is a call of Publish.
type publication struct {
	job   *ingest.Job
	done  chan error   // has room for the outcome
	state ingest.State // of the version then
	err   error        // of this one alone; the others go on
}

// corpusName is a corpus of a tenant.
type corpusName struct{ tenant, corpus string }

func corpusOf(job *ingest.Job) corpusName { return corpusName{job.Tenant, job.Corpus} }

// publishing holds the calls of Publish that wait. Its zero value is ready.
type publishing struct {
	mu      sync.Mutex
	waiting map[corpusName][]*publication // a corpus has an entry while somebody works on its calls
}

// enqueue reports whether nobody works on the corpus's calls, so that the caller has to see to it.
func (q *publishing) enqueue(p *publication) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = make(map[corpusName][]*publication)
	}
	waiting, busy := q.waiting[corpusOf(p.job)]
	q.waiting[corpusOf(p.job)] = append(waiting, p)
	return !busy
}

// publishedTogether bounds the documents of one transaction.
const publishedTogether = 64

// next takes calls of a corpus out; none ends the work on them.
func (q *publishing) next(name corpusName) []*publication {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.waiting[name]
	n := min(len(waiting), publishedTogether)
	if n == 0 {
		delete(q.waiting, name)
		return nil
	}
	q.waiting[name] = waiting[n:]
	return slices.Clone(waiting[:n])
}

// publishQueued works on a corpus's calls until none waits.
func (s *Store) publishQueued(ctx context.Context, name corpusName) {
	for together := s.publishing.next(name); together != nil; together = s.publishing.next(name) {
		publish := func(ps ...*publication) error {
			return s.tx(ctx, func(tx pgx.Tx) error { return publishAll(ctx, tx, ps) })
		}
		err := publish(together...)
		for _, p := range together {
			outcome := err
			if err != nil && len(together) > 1 { // the fault may be that of one
				outcome = publish(p)
			}
			if outcome == nil {
				outcome = p.err
			}
			p.done <- outcome
		}
	}
}

// publishAll makes versions of one corpus live, or ready if they are made for its next index. One whose lease is lost is left out.
func publishAll(ctx context.Context, tx pgx.Tx, together []*publication) error {
	documents := make(map[*publication]int64, len(together))
	tenant, corpus := together[0].job.Tenant, int64(0)
	for _, p := range together {
		// Without locks first: the corpus is to be locked before the documents, the documents before the versions.
		var document, of int64
		err := tx.QueryRow(ctx, `SELECT d.id, d.corpus FROM document_versions v JOIN documents d ON d.tenant = v.tenant AND d.id = v.document
			WHERE v.tenant = $1 AND v.id = $2`, tenant, p.job.Version).Scan(&document, &of)
		p.err = nil
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && corpus != 0 && of != corpus: // the corpus was deleted and made again
			p.err = ingest.ErrLeaseLost
			continue
		case err != nil:
			return err
		}
		documents[p], corpus = document, of
	}
	if corpus == 0 {
		return nil
	}
	if err := lockCorpus(ctx, tx, tenant, corpus); err != nil {
		return err
	}
	order := slices.DeleteFunc(slices.Clone(together), func(p *publication) bool { return p.err != nil })
	slices.SortStableFunc(order, func(a, b *publication) int { return cmp.Compare(documents[a], documents[b]) })
	var versions []int64
	for _, p := range order {
		live, err := replace(ctx, tx, p, documents[p], corpus)
		if err != nil {
			return err
		}
		if live {
			versions = append(versions, p.job.Version)
		}
	}
	return enliven(ctx, tx, tenant, corpus, versions)
}

// replace takes the live version of a publication's document out of the search, and reports whether the new one is to come in. The corpus is locked.
func replace(ctx context.Context, tx pgx.Tx, p *publication, document, corpus int64) (live bool, err error) {
	job := p.job
	var previous *int64
	err = tx.QueryRow(ctx, `SELECT live_version FROM documents WHERE tenant = $1 AND id = $2 FOR UPDATE`, job.Tenant, document).Scan(&previous)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ingest.ErrLeaseLost
	}
	if err == nil {
		err = checkLease(ctx, tx, job)
	}
	if errors.Is(err, ingest.ErrLeaseLost) {
		p.err = err
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var own bool // made for the index that the corpus has; only now that it is locked can no switch change that
	err = tx.QueryRow(ctx, `SELECT v.space = c.space AND v.splitter = c.splitter FROM document_versions v, corpora c
		WHERE v.tenant = $1 AND v.id = $2 AND c.tenant = $1 AND c.id = $3`, job.Tenant, job.Version, corpus).Scan(&own)
	if err != nil {
		return false, err
	}
	if !own {
		p.state = ingest.Ready
		return false, markReady(ctx, tx, job)
	}
	p.state = ingest.Live
	if previous != nil {
		err = retire(ctx, tx, job.Tenant, corpus, *previous)
	}
	return true, err
}

// retire takes a version out of the search; its passages stay, so that answers that cite them can be followed.
func retire(ctx context.Context, tx pgx.Tx, tenant string, corpus, version int64) error {
	if err := unindex(ctx, tx, tenant, corpus, version); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE document_versions SET state = 'retired' WHERE tenant = $1 AND id = $2`, tenant, version)
	return err
}

// unindex removes the vectors and postings of a version.
func unindex(ctx context.Context, tx pgx.Tx, tenant string, corpus, version int64) error {
	_, err := eachIndexed(ctx, tx, tenant, version, func(ps []indexed) error { return removePostings(ctx, tx, tenant, corpus, ps) })
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM passage_vectors v USING passages p WHERE p.tenant = $1 AND p.version = $2 AND v.tenant = $1 AND v.passage = p.id`, tenant, version)
	return err
}

// markReady ends the work on a version that waits for its corpus's next index.
func markReady(ctx context.Context, tx pgx.Tx, job *ingest.Job) error {
	var missing int
	err := tx.QueryRow(ctx, `UPDATE document_versions v SET state = 'ready', lease = v.lease + 1, lease_until = '-infinity', attempt = 0, error_class = '', error_message = ''
		WHERE v.tenant = $1 AND v.id = $2
		RETURNING v.passages - (SELECT count(*) FROM staged_vectors s WHERE s.tenant = $1 AND s.version = $2)`, job.Tenant, job.Version).Scan(&missing)
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d passages have no vector", missing)
	}
	return err
}

// enliven puts versions of a corpus, which the caller has locked, into the search.
func enliven(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, versions []int64) error {
	if len(versions) == 0 {
		return nil
	}
	if err := reusePlans(ctx, tx); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `INSERT INTO passage_vectors (tenant, passage, corpus, document, space, lang, embedding)
		SELECT $1, p.id, $3, v.document, v.space, p.lang, s.embedding FROM document_versions v
		JOIN passages p ON p.tenant = v.tenant AND p.version = v.id
		JOIN staged_vectors s ON s.tenant = p.tenant AND s.version = p.version AND s.seq = p.seq
		WHERE v.tenant = $1 AND v.id = ANY ($2) ORDER BY p.id`, tenant, versions, corpus)
	if err != nil {
		return err
	}
	n, err := indexAll(ctx, tx, tenant, corpus, versions)
	if err != nil {
		return err
	}
	if vectors := int(tag.RowsAffected()); vectors != n {
		return fmt.Errorf("%d of %d passages have no vector", n-vectors, n)
	}
	for _, sql := range []string{
		`DELETE FROM staged_vectors WHERE tenant = $1 AND version = ANY ($2)`,
		`UPDATE document_versions SET state = 'live', live_at = now(), attempt = 0, lease_until = '-infinity', error_class = '', error_message = '' WHERE tenant = $1 AND id = ANY ($2)`,
		`UPDATE documents d SET live_version = v.id FROM document_versions v WHERE v.tenant = $1 AND v.id = ANY ($2) AND d.tenant = $1 AND d.id = v.document`,
	} {
		if _, err := tx.Exec(ctx, sql, tenant, versions); err != nil {
			return err
		}
	}
	return nil
}

// indexAll puts the passages of versions into the lexical index and returns how many there are.
func indexAll(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, versions []int64) (n int, err error) {
	var g gathered
	flush := func() error {
		err := addPostings(ctx, tx, tenant, corpus, &g)
		g = gathered{}
		return err
	}
	for _, version := range versions {
		m, err := eachIndexed(ctx, tx, tenant, version, func(ps []indexed) error {
			if g.add(ps); g.postings < gatheredAtOnce {
				return nil
			}
			return flush()
		})
		if n += m; err != nil {
			return n, err
		}
	}
	return n, flush()
}
