package bench

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Row is one figure. The fields, in this order and under the names in their tags, are the columns of the file; new ones are added at the end.
type Row struct {
	Date      string  `csv:"date"`   // of the run, UTC
	Commit    string  `csv:"commit"` // of ragd
	CPU       string  `csv:"cpu"`
	Model     string  `csv:"model"`
	ISA       string  `csv:"isa"`
	Threads   int     `csv:"threads"`
	Work      string  `csv:"work"`
	Value     float64 `csv:"value"`
	Unit      string  `csv:"unit"`
	Peer      string  `csv:"peer"` // what it is compared with; "" when with nothing
	PeerValue float64 `csv:"peer_value"`
	Ratio     float64 `csv:"ratio"` // how many times better ragd is
	Limit     float64 `csv:"limit"` // the most that this machine allows, in the same unit; 0: none is known
	Share     float64 `csv:"share"` // of the limit that is reached, at most 1
	Runs      int     `csv:"runs"`
	Others    float64 `csv:"others"`          // part of the processor time that other programs took meanwhile
	Ops       float64 `csv:"ops_per_token"`   // integer operations; 0 in works that the roofline does not show
	Bytes     float64 `csv:"bytes_per_token"` // of weights and cache read from memory
	Note      string  `csv:"note"`
}

// smallerIsBetter lists the units in which less is more.
var smallerIsBetter = []string{"s", "ms", "MiB", "passes", "times"}

// complete fills Ratio and Share.
func (r *Row) complete() {
	if r.Peer != "" && r.Value > 0 && r.PeerValue > 0 {
		r.Ratio = r.Value / r.PeerValue
		if slices.Contains(smallerIsBetter, r.Unit) {
			r.Ratio = r.PeerValue / r.Value
		}
	}
	if r.Limit > 0 && r.Value > 0 {
		r.Share = r.Value / r.Limit
		if slices.Contains(smallerIsBetter, r.Unit) {
			r.Share = r.Limit / r.Value
		}
	}
}

// key tells figures apart that are not measurements of the same thing.
func (r *Row) key() string {
	return strings.Join([]string{r.CPU, r.Model, r.ISA, strconv.Itoa(r.Threads), r.Work, r.Unit, r.Peer}, "\x00")
}

// columns are the names in the first line.
func columns() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Row]()) {
		names = append(names, f.Tag.Get("csv"))
	}
	return names
}

// record is r as text. Four digits are more than a measurement is good for.
func (r *Row) record() []string {
	var fields []string
	v := reflect.ValueOf(*r)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() != reflect.Float64 {
			fields = append(fields, fmt.Sprint(f.Interface()))
		} else if f.Float() == 0 {
			fields = append(fields, "")
		} else {
			fields = append(fields, significant(f.Float()))
		}
	}
	return fields
}

// significant is x with four digits, or all of those before the point, never in exponent form.
func significant(x float64) string {
	if x >= 1000 || x <= -1000 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		rounded = x
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// Append adds rows to the file at path, which it makes when there is none. It refuses a file with other columns.
func Append(path string, rows ...Row) error {
	if err := appendRows(path, rows); err != nil {
		return fmt.Errorf("bench: write %s: %w", path, err)
	}
	return nil
}

func appendRows(path string, rows []Row) error {
	_, err := ReadTable(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	if fresh {
		_ = w.Write(columns()) // w keeps its error
	}
	for _, r := range rows {
		_ = w.Write(r.record())
	}
	w.Flush()
	return errors.Join(w.Error(), f.Close())
}

// ReadTable reads the file at path. Of several measurements of the same thing it returns the last.
func ReadTable(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := readRows(f)
	if err != nil {
		return nil, fmt.Errorf("bench: read %s: %w", path, err)
	}
	return rows, nil
}

func readRows(in io.Reader) ([]Row, error) {
	records, err := csv.NewReader(in).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(records) == 0 || !slices.Equal(records[0], columns()) {
		return nil, fmt.Errorf("the first line must be %q: move the file away, it is of another version", strings.Join(columns(), ","))
	}
	var rows []Row
	at := map[string]int{}
	for i, record := range records[1:] {
		row, err := parseRow(record)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		if k, seen := at[row.key()]; seen {
			rows[k] = row
			continue
		}
		at[row.key()] = len(rows)
		rows = append(rows, row)
	}
	return rows, nil
}

func parseRow(record []string) (Row, error) {
	var row Row
	v := reflect.ValueOf(&row).Elem()
	for i, text := range record {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(text)
		case reflect.Int:
			n, err := strconv.Atoi(text)
			if err != nil {
				return row, fmt.Errorf("column %s: %w", columns()[i], err)
			}
			f.SetInt(int64(n))
		case reflect.Float64:
			if text == "" {
				continue
			}
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return row, fmt.Errorf("column %s: %w", columns()[i], err)
			}
			f.SetFloat(x)
		}
	}
	return row, nil
}
