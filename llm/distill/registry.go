package distill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Registry keeps finished students in a folder, one subfolder each, and says which of them are in force. A slot is what one student can be in force
// for, for example one corpus with one embedder. A registry is read by any number of processes and written by one at a time.
type Registry struct{ Dir string }

// installedFile holds, per slot, the students that were installed, oldest first; the last one is in force.
const installedFile = "installed.json"

// Entry describes a student on the shelf.
type Entry struct {
	ID   string `json:"id"` // name of its subfolder
	Slot string `json:"slot"`
	Gain string `json:"gain"` // what was measured, in words
	Pass bool   `json:"pass"` // it passed the gate
}

// ErrNone: there is nothing to revert to or no such student.
var ErrNone = errors.New("no such student")

// Add stores a student's files beside its entry. An entry of the same id is replaced: the same run gives the same student.
func (r Registry) Add(e Entry, files map[string][]byte) error {
	dir := r.Path(e.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("distill: keep student: %w", err)
	}
	about, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("distill: keep student: %w", err)
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := WriteFile(filepath.Join(dir, name), files[name]); err != nil {
			return fmt.Errorf("distill: keep student: %w", err)
		}
	}
	// The entry comes last: what has one is complete.
	if err := WriteFile(filepath.Join(dir, "student.json"), append(about, '\n')); err != nil {
		return fmt.Errorf("distill: keep student: %w", err)
	}
	return nil
}

// Path is the folder of a student's files.
func (r Registry) Path(id string) string { return filepath.Join(r.Dir, id) }

// List returns the complete students, by id.
func (r Registry) List() ([]Entry, error) {
	folders, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("distill: list students: %w", err)
	}
	var all []Entry
	for _, folder := range folders {
		e, err := r.entry(folder.Name())
		if errors.Is(err, ErrNone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func (r Registry) entry(id string) (e Entry, err error) {
	raw, err := os.ReadFile(filepath.Join(r.Path(id), "student.json"))
	if err != nil {
		return e, fmt.Errorf("distill: student %q: %w", id, ErrNone)
	}
	if err := json.Unmarshal(raw, &e); err != nil || e.ID != id {
		return e, fmt.Errorf("distill: %s is damaged: remove the folder", filepath.Join(r.Path(id), "student.json"))
	}
	return e, nil
}

// Install puts a student in force for its slot. It returns ErrNone for an unknown id; whether the student deserves it is the caller's to check.
func (r Registry) Install(id string) error {
	e, err := r.entry(id)
	if err != nil {
		return err
	}
	return r.change(e.Slot, func(ids []string) ([]string, error) {
		return append(slices.DeleteFunc(ids, func(other string) bool { return other == id }), id), nil
	})
}

// Revert takes the student in force for slot out of force and returns it and the one that is in force again, "" when none is. ErrNone when none was.
func (r Registry) Revert(slot string) (was, now string, err error) {
	err = r.change(slot, func(ids []string) ([]string, error) {
		if len(ids) == 0 {
			return nil, fmt.Errorf("distill: %s: %w is installed", slot, ErrNone)
		}
		was, ids = ids[len(ids)-1], ids[:len(ids)-1]
		if len(ids) > 0 {
			now = ids[len(ids)-1]
		}
		return ids, nil
	})
	return was, now, err
}

// Installed returns the student in force for each slot.
func (r Registry) Installed() (map[string]string, error) {
	all, err := r.installed()
	if err != nil {
		return nil, err
	}
	inForce := make(map[string]string, len(all))
	for slot, ids := range all {
		inForce[slot] = ids[len(ids)-1]
	}
	return inForce, nil
}

func (r Registry) installed() (map[string][]string, error) {
	path := filepath.Join(r.Dir, installedFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string][]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("distill: installed students: %w", err)
	}
	all := map[string][]string{}
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("distill: %s is damaged (remove it: nothing is installed then): %w", path, err)
	}
	for slot, ids := range all {
		if len(ids) == 0 {
			delete(all, slot)
		}
	}
	return all, nil
}

func (r Registry) change(slot string, edit func(ids []string) ([]string, error)) error {
	all, err := r.installed()
	if err != nil {
		return err
	}
	ids, err := edit(all[slot])
	if err != nil {
		return err
	}
	if all[slot] = ids; len(ids) == 0 {
		delete(all, slot)
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("distill: installed students: %w", err)
	}
	if err := WriteFile(filepath.Join(r.Dir, installedFile), append(raw, '\n')); err != nil {
		return fmt.Errorf("distill: installed students: %w", err)
	}
	return nil
}
