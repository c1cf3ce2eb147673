package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Header is the first line of a results file: what was measured and how. A run goes on only where it equals the one that began the file.
type Header struct {
	Kind     string            `json:"kind"` // "retrieval", "answers", "grounded"
	Set      string            `json:"set"`
	Settings map[string]string `json:"settings"` // models, fingerprints, thresholds: whatever changes an outcome
}

// Results is a results file: a header, then one JSON object per question, in the order in which they were asked. A line that a kill cut short is
// dropped when the file is opened again.
type Results[T any] struct {
	Header  Header
	Records []T

	file *os.File
}

// OpenResults opens the file at path for appending and reads what is in it; a missing file begins with h. It is an error when the file was begun
// with another header.
func OpenResults[T any](path string, h Header) (*Results[T], error) {
	r := &Results[T]{Header: h}
	have, err := ReadResults[T](path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case !sameHeader(have.Header, h):
		return nil, fmt.Errorf("eval: %s was begun with other settings (%s): use another file, or remove it", path, difference(have.Header, h))
	default:
		r.Records = have.Records
	}
	if r.file, err = os.Create(path + ".part"); err != nil {
		return nil, fmt.Errorf("eval: results: %w", err)
	}
	if err := r.rewrite(path); err != nil {
		r.file.Close()
		return nil, fmt.Errorf("eval: results: %w", err)
	}
	return r, nil
}

// rewrite writes what is known to the open file and gives it its name.
func (r *Results[T]) rewrite(path string) error {
	w := bufio.NewWriter(r.file)
	enc := json.NewEncoder(w)
	if err := enc.Encode(r.Header); err != nil {
		return err
	}
	for _, record := range r.Records {
		if err := enc.Encode(record); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// difference names what two headers do not share.
func difference(a, b Header) string {
	var parts []string
	differ := func(name, was, is string) {
		if was != is {
			parts = append(parts, fmt.Sprintf("%s %q, now %q", name, was, is))
		}
	}
	differ("kind", a.Kind, b.Kind)
	differ("set", a.Set, b.Set)
	names := maps.Clone(a.Settings)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, b.Settings)
	for _, name := range sortedKeys(names) {
		differ(name, a.Settings[name], b.Settings[name])
	}
	return strings.Join(parts, "; ")
}

func sameHeader(a, b Header) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// Add appends one record; it is on its way to the disk when Add returns.
func (r *Results[T]) Add(record T) error {
	line, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("eval: results: %w", err)
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("eval: results: %w", err)
	}
	r.Records = append(r.Records, record)
	return nil
}

// each adds a record of every question that has none yet, parallel of them being asked at a time, at least one. A run that ends in the middle goes on
// where it stopped; records stand in the order in which they ended.
func (r *Results[T]) each(questions []Query, id func(*T) string, parallel int, progress func(done, total int), ask func(*Query) (T, error)) error {
	have := done(r.Records, id)
	var group errgroup.Group
	group.SetLimit(max(1, parallel))
	var mutex sync.Mutex
	var failed atomic.Bool
	for i := range questions {
		q := &questions[i]
		if have[q.ID] {
			continue
		}
		if failed.Load() {
			break
		}
		group.Go(func() (err error) {
			defer func() {
				if err != nil {
					failed.Store(true)
					err = fmt.Errorf("eval: question %s: %w", q.ID, err)
				}
			}()
			record, err := ask(q)
			if err != nil {
				return err
			}
			mutex.Lock()
			defer mutex.Unlock()
			if err := r.Add(record); err != nil {
				return err
			}
			if progress != nil {
				progress(len(r.Records), len(questions))
			}
			return nil
		})
	}
	return group.Wait()
}

// Close closes the file.
func (r *Results[T]) Close() error { return r.file.Close() }

// ReadResults reads a whole results file.
func ReadResults[T any](path string) (*Results[T], error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("eval: results: %w", err)
	}
	defer file.Close()
	r := &Results[T]{}
	in := bufio.NewReaderSize(file, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF { // what follows the last line end was cut short
			if n == 1 {
				return nil, fmt.Errorf("eval: %s has no header", path)
			}
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("eval: results: %w", err)
		}
		var record T
		if n == 1 {
			err = json.Unmarshal(line, &r.Header)
		} else if err = json.Unmarshal(line, &record); err == nil {
			r.Records = append(r.Records, record)
		}
		if err != nil {
			return nil, fmt.Errorf("eval: %s:%d: %w; remove the line, and its question is asked again", path, n, err)
		}
	}
}

// ReadHeader reads the header alone.
func ReadHeader(path string) (Header, error) {
	r, err := ReadResults[json.RawMessage](path)
	if err != nil {
		return Header{}, err
	}
	return r.Header, nil
}

// done returns the ids that records hold.
func done[T any](records []T, id func(*T) string) map[string]bool {
	have := make(map[string]bool, len(records))
	for i := range records {
		have[id(&records[i])] = true
	}
	return have
}

// sortedKeys returns the keys of m in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
