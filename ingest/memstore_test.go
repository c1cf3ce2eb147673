package ingest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
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
	origins  map[Source]string
	indexes  map[string]Index // of corpora, by tenant/name
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
	return &memStore{content: make(map[[32]byte][]byte), versions: make(map[int64]*memVersion), live: make(map[Source]int64), origins: make(map[Source]string), indexes: make(map[string]Index), clock: time.Now}
}

func (m *memStore) Index(_ context.Context, tenant, corpus string) (Index, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.indexes[tenant+"/"+corpus], nil
}

func (m *memStore) own(v *memVersion) bool { return v.Index == m.indexes[v.Tenant+"/"+v.Corpus] }

// movedFrom is the source whose file is gone and has the candidate's bytes; m.mu is held.
func (m *memStore) movedFrom(c Candidate) (Source, bool) {
	if _, known := m.origins[c.Source]; known || c.Gone == nil {
		return Source{}, false
	}
	for s, origin := range m.origins {
		v := m.versions[m.live[s]]
		if v != nil && s.Tenant == c.Tenant && s.Corpus == c.Corpus && origin != "" && v.SHA256 == c.SHA256 && v.Index == c.Index && c.Gone(origin) {
			return s, true
		}
	}
	return Source{}, false
}

func (m *memStore) Preview(_ context.Context, c Candidate) (p Preview, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.movedFrom(c); ok {
		return Preview{Outcome: Moved, From: s.Path}, nil
	}
	_, p.Known = m.origins[c.Source]
	if v := m.versions[m.live[c.Source]]; v != nil && v.SHA256 == c.SHA256 {
		p.Outcome = Unchanged
	}
	return p, nil
}

func (m *memStore) Origins(_ context.Context, tenant, corpus, prefix string) (all []Placed, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s, origin := range m.origins {
		if s.Tenant == tenant && s.Corpus == corpus && origin != "" && strings.HasPrefix(origin, prefix) {
			all = append(all, Placed{s.Path, origin})
		}
	}
	slices.SortFunc(all, func(a, b Placed) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

func (m *memStore) Remove(_ context.Context, tenant, corpus, path string) error {
	m.remove(Source{Tenant: tenant, Corpus: corpus, Path: path})
	return nil
}

func (m *memStore) Shadow(_ context.Context, tenant, corpus string, to Index) (shadow Shadow, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s, live := range m.live {
		if s.Tenant != tenant || s.Corpus != corpus {
			continue
		}
		shadow.Documents++
		have := false
		for id, v := range m.versions {
			switch {
			case v.Source != s || m.own(v) || v.state == Retired:
			case v.Index == to && v.SHA256 == m.versions[live].SHA256 && v.state != Failed:
				have = true
				if v.state == Ready {
					shadow.Ready++
				}
			default:
				delete(m.versions, id)
			}
		}
		if !have {
			c := m.versions[live].Candidate
			c.Index = to
			m.add(c)
		}
	}
	return shadow, nil
}

func (m *memStore) Switch(_ context.Context, tenant, corpus string, to Index) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := make(map[Source]int64)
	for id, v := range m.versions {
		if v.Tenant == tenant && v.Corpus == corpus && v.state == Ready && v.Index == to && m.versions[m.live[v.Source]].SHA256 == v.SHA256 {
			next[v.Source] = id
		}
	}
	for s := range m.live {
		if s.Tenant == tenant && s.Corpus == corpus && next[s] == 0 {
			return false, nil
		}
	}
	m.indexes[tenant+"/"+corpus] = to
	for _, v := range m.versions {
		switch {
		case v.Tenant != tenant || v.Corpus != corpus || v.state == Ready:
		case v.state == Live:
			v.state = Retired
		case v.state != Retired && v.Index != to:
			v.Index = to
			v.lease++
			v.until = time.Time{}
			if v.state != Failed {
				v.state = Received
			}
		}
	}
	for s, id := range next {
		m.live[s] = id
		m.versions[id].state = Live
	}
	return true, nil
}

// add makes a version; m.mu is held.
func (m *memStore) add(c Candidate) int64 {
	m.last++
	m.versions[m.last] = &memVersion{Candidate: c, id: m.last, state: Received, vectors: make(map[int]embed.Vector)}
	return m.last
}

func (m *memStore) Receive(_ context.Context, c Candidate, content io.Reader) (Outcome, int64, error) {
	data, err := io.ReadAll(content)
	if err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, have := m.content[c.SHA256]; !have && sha256.Sum256(data) != c.SHA256 {
		return 0, 0, fmt.Errorf("receive: %w", ErrContent)
	}
	if have, ok := m.indexes[c.Tenant+"/"+c.Corpus]; ok && have != c.Index {
		return 0, 0, fmt.Errorf("corpus %s %w", c.Corpus, have.Mismatch(c.Index))
	}
	m.indexes[c.Tenant+"/"+c.Corpus] = c.Index
	if from, ok := m.movedFrom(c); ok {
		id := m.live[from]
		for _, v := range m.versions {
			if v.Source == from {
				v.Source = c.Source
			}
		}
		m.live[c.Source], m.origins[c.Source] = id, c.Origin
		delete(m.live, from)
		delete(m.origins, from)
		if path.Base(from.Path) != path.Base(c.Path) {
			return Queued, m.add(c), nil
		}
		return Moved, id, nil
	}
	m.origins[c.Source] = c.Origin
	for _, id := range slices.Sorted(maps.Keys(m.versions)) {
		v := m.versions[id]
		if v.Source != c.Source || !m.own(v) {
			continue
		}
		switch same := v.SHA256 == c.SHA256; {
		case same && v.state == Live:
			return Unchanged, id, nil
		case same && v.state == Failed:
			v.state, v.attempt, v.failure = Received, 0, Failure{}
			return Queued, id, nil
		case same && m.live[c.Source] != id && v.state != Retired:
			v.attempt = 0
			return Queued, id, nil
		case !same && v.state != Live && v.state != Retired:
			delete(m.versions, id)
		}
	}
	m.content[c.SHA256] = data
	return Queued, m.add(c), nil
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

func (m *memStore) Claim(_ context.Context, tenant, corpus string, index Index, lease time.Duration) (*Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	for _, id := range slices.Sorted(maps.Keys(m.versions)) {
		v := m.versions[id]
		if v.Index != index || v.state == Ready || v.state == Live || v.state == Failed || v.state == Retired || v.until.After(now) || v.retry.After(now) || tenant != "" && tenant != v.Tenant || corpus != "" && corpus != v.Corpus {
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
		if v.lease++; !m.own(v) {
			v.state, job.State = Ready, Ready
			return nil
		}
		if old := m.versions[m.live[v.Source]]; old != nil {
			old.state = Retired
		}
		m.live[v.Source] = v.id
		v.state, job.State = Live, Live
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
	delete(m.origins, s)
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
