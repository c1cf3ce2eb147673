package eval

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Passage is a line of corpus.jsonl.
type Passage struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
	Lang  string `json:"lang"` // ISO 639-1; "" in sets of one language
}

// Turn is an earlier message of a question's conversation.
type Turn struct {
	Role string `json:"role"` // "user" or "assistant"
	Text string `json:"text"`
}

// Query is a line of queries.jsonl.
type Query struct {
	ID         string    `json:"id"`
	Text       string    `json:"text"`
	Answers    []string  `json:"answers"`
	Answerable *bool     `json:"answerable"` // nil: not said
	History    []Turn    `json:"history"`
	Lang       string    `json:"lang"`
	Near       string    `json:"near_passage"` // of an unanswerable question: the passage that it was written against
	Of         string    `json:"variant_of"`   // the id of the question that this one says in other words
	Variant    string    `json:"variant"`      // how it differs: "paraphrase", "word", "order", "position 2", "noise 5"
	HeldOut    *bool     `json:"held_out"`     // nil: decided by the id
	Given      []Passage `json:"given"`        // passages to answer from; nil: those that are found
	Ordered    bool      `json:"ordered"`      // the given passages stay in their order
	Forbidden  []string  `json:"forbidden"`    // what no answer may say, capitals aside
}

// IsAnswerable reports whether the documents hold an answer: what the set says, else whether a passage is right.
func (d *Dataset) IsAnswerable(q *Query) bool {
	if q.Answerable != nil {
		return *q.Answerable
	}
	return len(d.Gains[q.ID]) > 0 || len(q.Answers) > 0
}

// IsHeldOut reports whether q is of the part on which nothing may be tuned: three questions of five, by a hash of the id, so that it is the same on
// every machine and a question that is added moves no other. A variant stands with the question that it was made from.
func (q *Query) IsHeldOut() bool {
	if q.HeldOut != nil {
		return *q.HeldOut
	}
	return share(cmp.Or(q.Of, q.ID)) >= 0.4
}

// share maps an id to [0, 1).
func share(id string) float64 {
	sum := sha256.Sum256([]byte(id))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}

// Shuffled returns the questions in the order of a hash of their ids: any beginning of it is a fair sample, and the same one everywhere.
func (d *Dataset) Shuffled() []Query {
	all := slices.Clone(d.Queries)
	order := func(q Query) string {
		sum := sha256.Sum256([]byte("order " + q.ID))
		return string(sum[:])
	}
	slices.SortStableFunc(all, func(a, b Query) int { return strings.Compare(order(a), order(b)) })
	return all
}

// Dataset is a set in memory.
type Dataset struct {
	Name    string
	Dir     string
	Corpus  []Passage
	Queries []Query
	Gains   map[string]map[string]float64 // query id → passage id → gain; absent: no passage is right
}

// Load reads the set in dir. Errors name file and line.
func Load(dir string) (*Dataset, error) {
	d := &Dataset{Name: filepath.Base(filepath.Clean(dir)), Dir: dir, Gains: map[string]map[string]float64{}}
	var err error
	if d.Corpus, err = readJSONLines[Passage](filepath.Join(dir, "corpus.jsonl")); err != nil {
		return nil, err
	}
	if d.Queries, err = readJSONLines[Query](filepath.Join(dir, "queries.jsonl")); err != nil {
		return nil, err
	}
	return d, d.readGains(filepath.Join(dir, "qrels.tsv"))
}

// ReadCorpus reads the passages of a corpus.jsonl alone.
func ReadCorpus(path string) ([]Passage, error) { return readJSONLines[Passage](path) }

func readJSONLines[T any](path string) ([]T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("eval: open the set: %w", err)
	}
	defer file.Close()
	var all []T
	dec := json.NewDecoder(bufio.NewReader(file))
	for line := 1; ; line++ {
		var v T
		switch err := dec.Decode(&v); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("eval: %s, object %d: %w", path, line, err)
		}
		all = append(all, v)
	}
}

// readGains reads query-id, passage-id and gain, separated by tabs, below one header line.
func (d *Dataset) readGains(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("eval: open the set: %w", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if i == 0 {
			continue
		}
		fields := strings.Split(strings.TrimRight(line, "\r"), "\t")
		if len(fields) != 3 {
			return fmt.Errorf("eval: %s:%d: want query, passage and gain separated by tabs, found %d fields", path, i+1, len(fields))
		}
		gain, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return fmt.Errorf("eval: %s:%d: gain: %w", path, i+1, err)
		}
		if d.Gains[fields[0]] == nil {
			d.Gains[fields[0]] = map[string]float64{}
		}
		d.Gains[fields[0]][fields[1]] = gain
	}
	return nil
}
