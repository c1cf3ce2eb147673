package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"ragd/embed"
)

// memStore is a Store in memory: the plain statement of what the contract
// says, against which the pipeline is tested without a database.
type memStore struct {
	mu       sync.Mutex
	content  map[[32]byte][]byte
	versions map[int64]*memVersion
	live     map[Source]int64
	last     int64
	clock    func() time.Time
}

type memVersion struct {
	Candidate
	id, lease int64
	state     State
	attempt   int
	until     time.Time // lease
	retry     time.Time
	document  *Document
	passages  []Passage
	vectors   map[int]embed.Vector
	failure   Failure
}

func newMemStore() *memStore {
	return &memStore{content: make(map[[32]byte][]byte), versions: make(map[int64]*memVersion), live: make(map[Source]int64), clock: time.Now}
}

func (m *memStore) Receive(_ context.Context, c Candidate, content io.Reader) (Outcome, int64, error) {
	data, err := io.ReadAll(content)
	if err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.versions)) {
		v := m.versions[id]
		if v.Corpus == c.Corpus && v.Tenant == c.Tenant && v.Index != c.Index {
			return 0, 0, fmt.Errorf("corpus %s is indexed with %v, not %v", c.Corpus, v.Index, c.Index)
		}
		if v.Source != c.Source {
			continue
		}
		switch same := v.SHA256 == c.SHA256; {
		case same && v.state == Live:
			return Unchanged, id, nil
		case same && v.state == Failed:
			v.state, v.attempt, v.failure = Received, 0, Failure{}
			return Queued, id, nil
		case same && m.live[c.Source] != id && v.state != "retired":
			v.attempt = 0
			return Queued, id, nil
		case !same && v.state != Live && v.state != "retired":
			delete(m.versions, id)
		}
	}
	m.content[c.SHA256] = data
	m.last++
	m.versions[m.last] = &memVersion{Candidate: c, id: m.last, state: Received, vectors: make(map[int]embed.Vector)}
	return Queued, m.last, nil
}

func (m *memStore) Status(_ context.Context, _ string, version int64) (State, Failure, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.versions[version]
	if v == nil {
		return "", Failure{}, ErrLeaseLost
	}
	return v.state, v.failure, nil
}

func (m *memStore) Claim(_ context.Context, tenant, corpus string, lease time.Duration) (*Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	for _, id := range slices.Sorted(maps.Keys(m.versions)) {
		v := m.versions[id]
		if v.state == Live || v.state == Failed || v.state == "retired" || v.until.After(now) || v.retry.After(now) || tenant != "" && tenant != v.Tenant || corpus != "" && corpus != v.Corpus {
			continue
		}
		v.lease++
		v.attempt++
		v.until = now.Add(lease)
		return &Job{Version: id, Lease: v.lease, State: v.state, Attempt: v.attempt, Source: v.Source, SHA256: v.SHA256, Size: v.Size, Index: v.Index}, nil
	}
	return nil, nil
}

// owned runs fn on the job's version under its lease.
func (m *memStore) owned(job *Job, fn func(*memVersion) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.versions[job.Version]
	if v == nil || v.lease != job.Lease {
		return fmt.Errorf("mem: %w", ErrLeaseLost)
	}
	return fn(v)
}

func (m *memStore) Extend(_ context.Context, job *Job, lease time.Duration) error {
	return m.owned(job, func(v *memVersion) error { v.until = m.clock().Add(lease); return nil })
}

func (m *memStore) Content(_ context.Context, job *Job) (r io.ReadCloser, err error) {
	err = m.owned(job, func(v *memVersion) error { r = io.NopCloser(bytes.NewReader(m.content[v.SHA256])); return nil })
	return r, err
}

func (m *memStore) Document(_ context.Context, job *Job) (d *Document, err error) {
	err = m.owned(job, func(v *memVersion) error { d = v.document; return nil })
	return d, err
}

func (m *memStore) Pending(_ context.Context, job *Job) (ps []Pending, err error) {
	err = m.owned(job, func(v *memVersion) error {
		for i, p := range v.passages {
			if v.vectors[i] == nil {
				ps = append(ps, Pending{i, p.Indexed()})
			}
		}
		return nil
	})
	return ps, err
}

func (m *memStore) advance(job *Job, state State, fn func(*memVersion) error) error {
	return m.owned(job, func(v *memVersion) error {
		if err := fn(v); err != nil {
			return err
		}
		if v.state != state {
			v.attempt = 0
		}
		v.state, job.State = state, state
		return nil
	})
}

func (m *memStore) SaveDocument(_ context.Context, job *Job, d *Document) error {
	return m.advance(job, Parsed, func(v *memVersion) error { v.document = d; return nil })
}

func (m *memStore) SavePassages(_ context.Context, job *Job, ps []Passage) error {
	return m.advance(job, Split, func(v *memVersion) error {
		v.passages, v.vectors = ps, make(map[int]embed.Vector)
		return nil
	})
}

func (m *memStore) SaveVectors(_ context.Context, job *Job, seqs []int, vs []embed.Vector) error {
	return m.owned(job, func(v *memVersion) error {
		for i, seq := range seqs {
			v.vectors[seq] = vs[i]
		}
		if len(v.vectors) == len(v.passages) {
			v.state, job.State, v.attempt = Embedded, Embedded, 0
		}
		return nil
	})
}

func (m *memStore) Publish(_ context.Context, job *Job) error {
	return m.owned(job, func(v *memVersion) error {
		if len(v.vectors) < len(v.passages) {
			return errors.New("mem: passages without vectors")
		}
		if old := m.versions[m.live[v.Source]]; old != nil {
			old.state = "retired"
		}
		m.live[v.Source] = v.id
		v.state, job.State = Live, Live
		v.lease++
		return nil
	})
}

func (m *memStore) Fail(_ context.Context, job *Job, f Failure) error {
	return m.owned(job, func(v *memVersion) error {
		v.failure, v.until = f, time.Time{}
		v.lease++
		if f.Retry > 0 {
			v.retry = m.clock().Add(f.Retry)
		} else {
			v.state = Failed
		}
		return nil
	})
}

// remove deletes a source in whatever state it is.
func (m *memStore) remove(s Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.versions, func(_ int64, v *memVersion) bool { return v.Source == s })
	delete(m.live, s)
}

// row is a live passage as a reader finds it.
type row struct {
	Path string
	Passage
	Vector embed.Vector
}

// rows is all that is live, in a fixed order.
func (m *memStore) rows() []row {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []row
	for s, id := range m.live {
		for i, p := range m.versions[id].passages {
			all = append(all, row{s.Path, p, m.versions[id].vectors[i]})
		}
	}
	slices.SortFunc(all, func(a, b row) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Start, b.Start)) })
	return all
}
