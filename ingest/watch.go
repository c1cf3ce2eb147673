package ingest

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watcher keeps a corpus like the folders it is made from. The file system's
// events only say when to look: what has changed is found by walking the folders
// again, so that lost events, renamed folders and editors that write beside and
// rename come out right. A walk looks into those files only whose size or time of
// change differs from what it saw before.
//
// Whether documents of deleted files are removed is the Pipeline's Prune.
type Watcher struct {
	Pipeline       *Pipeline
	Tenant, Corpus string
	Paths          []string
	Settle         time.Duration // how long nothing must happen before files are read; default 1 s
	Longest        time.Duration // after which they are read although things go on happening; default 30 s
}

// WatchEvents are told what a Watcher does, from one goroutine but for Progress.
// All are needed.
type WatchEvents struct {
	Begin    func()
	Progress func(Progress)
	End      func(Report, error) // an error here is followed by another attempt
}

// retryWatch is after what time a run that failed is tried again without an event.
const retryWatch = 30 * time.Second

// Watch takes the paths in, then again whatever changes, until ctx ends. An error
// of a run is told to End and tried again; an error of the watch itself ends it.
func (w Watcher) Watch(ctx context.Context, events WatchEvents) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("ingest: watch: %w", err)
	}
	defer notify.Close()
	known := make(stamps)
	for {
		// Before the walk: what changes during it is an event that the next round sees.
		if err := w.follow(notify); err != nil {
			return err
		}
		events.Begin()
		report, err := w.Pipeline.run(ctx, w.Tenant, w.Corpus, w.Paths, known, events.Progress)
		events.End(report, err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var again <-chan time.Time
		if err != nil {
			known = make(stamps) // what was seen may not have been stored
			again = time.After(retryWatch)
		}
		if err := w.wait(ctx, notify, again); err != nil {
			return err
		}
	}
}

// follow watches every folder under the paths, and the folders of files among them.
func (w Watcher) follow(notify *fsnotify.Watcher) error {
	for _, path := range w.Paths {
		root, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // the walk reports it
		}
		err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil // the walk reports it, or it is gone again
			case !d.IsDir() && file == root:
				return notify.Add(filepath.Dir(file))
			case !d.IsDir():
				return nil
			case generated[d.Name()] && file != root:
				return fs.SkipDir
			}
			return notify.Add(file)
		})
		if err != nil {
			return fmt.Errorf("ingest: watch %s: %w; a system bounds how many folders are watched (on Linux fs.inotify.max_user_watches)", path, err)
		}
	}
	return nil
}

// wait returns when something has happened and then nothing for a while, or at again.
func (w Watcher) wait(ctx context.Context, notify *fsnotify.Watcher, again <-chan time.Time) error {
	settle, longest := cmp.Or(w.Settle, time.Second), cmp.Or(w.Longest, 30*time.Second)
	var quiet, late <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-notify.Events:
			if !ok {
				return fmt.Errorf("ingest: watch: %w", fsnotify.ErrClosed)
			}
			if event.Op == fsnotify.Chmod {
				continue // indexers and backup programs touch attributes all day
			}
			quiet = time.After(settle)
			if late == nil {
				late = time.After(longest)
			}
		case _, ok := <-notify.Errors: // events were lost: look
			if !ok {
				return fmt.Errorf("ingest: watch: %w", fsnotify.ErrClosed)
			}
			quiet = time.After(settle)
		case <-quiet:
			return nil
		case <-late:
			return nil
		case <-again:
			return nil
		}
	}
}
