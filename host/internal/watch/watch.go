// Package watch reports changes of files at given paths. It detects writes, renames, removal, creation, and changed
// symbolic links in a path.
package watch

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Quiet is the time without events before a change is reported. The wait is needed because most programs write a file
// in several steps.
const Quiet = 150 * time.Millisecond

// Watcher watches directories for events about files with certain names.
type Watcher struct {
	fs      *fsnotify.Watcher
	log     *slog.Logger
	changed func()
	done    chan struct{}
	check   chan struct{}

	mu     sync.Mutex
	files  []string
	dirs   []string
	places map[string][]string // maps a directory to the watched names; nil means all names
}

// New returns a watcher. It calls the function "changed" from a single goroutine after each change of watched files.
func New(log *slog.Logger, changed func()) (*Watcher, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("files cannot be monitored for changes: %w", err)
	}
	w := &Watcher{fs: fs, log: log, changed: changed, done: make(chan struct{}), check: make(chan struct{}, 1)}
	go w.run()
	return w, nil
}

// Set replaces the watched files and directories. A watched directory includes its files. If a path does not exist, the
// watcher reports its creation.
func (w *Watcher) Set(files, dirs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files, w.dirs = slices.Clone(files), slices.Clone(dirs)
	w.update()
}

// Check schedules a call of the function "changed", as if a file had changed at this moment.
func (w *Watcher) Check() {
	select {
	case w.check <- struct{}{}:
	default:
	}
}

// Close stops the watcher. After Close returns, the function "changed" is not called again.
func (w *Watcher) Close() {
	_ = w.fs.Close()
	<-w.done
}

func (w *Watcher) run() {
	defer close(w.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if w.matters(e) {
				timer.Reset(Quiet)
			}
		case err, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.log.Warn("changes of files may be missed; run toolhost plugin reload to apply changes", "error", err)
			}
			timer.Reset(Quiet)
		case <-w.check:
			timer.Reset(Quiet)
		case <-timer.C:
			w.mu.Lock()
			w.update() // the targets of symbolic links can have changed
			w.mu.Unlock()
			w.changed()
		}
	}
}

// matters reports whether an event concerns a watched file or directory.
func (w *Watcher) matters(e fsnotify.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, itself := w.places[e.Name]; itself {
		return true
	}
	names, ok := w.places[filepath.Dir(e.Name)]
	return ok && (names == nil || slices.Contains(names, filepath.Base(e.Name)))
}

// update watches the directories that determine the watched paths. It stops watching all other directories.
func (w *Watcher) update() {
	for range 3 { // try again, because paths can change between find and Add
		want := w.find()
		added := false
		for dir := range want {
			if _, has := w.places[dir]; has && slices.Contains(w.fs.WatchList(), dir) {
				continue
			}
			added = true
			if err := w.fs.Add(dir); err != nil {
				w.log.Warn("changes of files may be missed; run toolhost plugin reload to apply changes", "directory", dir, "error", err)
			}
		}
		for dir := range w.places {
			if _, wanted := want[dir]; !wanted {
				_ = w.fs.Remove(dir) // the error is ignored, because it means that the directory no longer exists
			}
		}
		w.places = want
		if !added {
			return
		}
	}
}

func (w *Watcher) find() map[string][]string {
	places := make(map[string][]string)
	for _, file := range w.files {
		for _, at := range Places(file) {
			dir, name := filepath.Split(at)
			dir = filepath.Clean(dir)
			if names, has := places[dir]; (!has || names != nil) && !slices.Contains(names, name) {
				places[dir] = append(names, name)
			}
		}
	}
	for _, dir := range w.dirs {
		at := Places(dir)
		for _, p := range at {
			parent, name := filepath.Split(p)
			parent = filepath.Clean(parent)
			if names, has := places[parent]; (!has || names != nil) && !slices.Contains(names, name) {
				places[parent] = append(names, name)
			}
		}
		if last := at[len(at)-1]; exists(last) {
			places[last] = nil
		}
	}
	return places
}
