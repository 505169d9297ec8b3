// Package watch tells when files change that are known by their paths: written in place,
// renamed over, removed and made again, or reached by a symbolic link that leads elsewhere now.
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

// Quiet is how long nothing must happen to the files before a change is told: who writes a
// file does it in many steps.
const Quiet = 150 * time.Millisecond

// Watcher watches directories for the names in them that matter.
type Watcher struct {
	fs      *fsnotify.Watcher
	log     *slog.Logger
	changed func()
	done    chan struct{}
	check   chan struct{}

	mu     sync.Mutex
	files  []string
	dirs   []string
	places map[string][]string // by directory: the names that matter, or every name when nil
}

// New makes a watcher. changed is called after changes, from one goroutine, and once
// something is watched anew, since that may have come too late.
func New(log *slog.Logger, changed func()) (*Watcher, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("changes of files cannot be noticed: %w", err)
	}
	w := &Watcher{fs: fs, log: log, changed: changed, done: make(chan struct{}), check: make(chan struct{}, 1)}
	go w.run()
	return w, nil
}

// Set replaces the watched files and directories. Directories are watched with their contents. A path that does not
// exist is watched until it does.
func (w *Watcher) Set(files, dirs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files, w.dirs = slices.Clone(files), slices.Clone(dirs)
	w.update()
}

// Check has changed called as after a change, once nothing happens to the files.
func (w *Watcher) Check() {
	select {
	case w.check <- struct{}{}:
	default:
	}
}

// Close returns when changed is not called any more.
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
				w.log.Warn("changes of files may be missed; run toolhost plugin reload to apply them", "error", err)
			}
			timer.Reset(Quiet)
		case <-w.check:
			timer.Reset(Quiet)
		case <-timer.C:
			w.mu.Lock()
			w.update() // links may lead elsewhere
			w.mu.Unlock()
			w.changed()
		}
	}
}

// matters reports whether an event is about a file, or about a directory that is watched.
func (w *Watcher) matters(e fsnotify.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, itself := w.places[e.Name]; itself {
		return true
	}
	names, ok := w.places[filepath.Dir(e.Name)]
	return ok && (names == nil || slices.Contains(names, filepath.Base(e.Name)))
}

// update has exactly the directories watched that lead to the files.
func (w *Watcher) update() {
	for range 3 { // what changes between looking and watching is looked at again
		want := w.find()
		added := false
		for dir := range want {
			if _, has := w.places[dir]; has && slices.Contains(w.fs.WatchList(), dir) {
				continue
			}
			added = true
			if err := w.fs.Add(dir); err != nil {
				w.log.Warn("changes of files may be missed; run toolhost plugin reload to apply them", "directory", dir, "error", err)
			}
		}
		for dir := range w.places {
			if _, wanted := want[dir]; !wanted {
				_ = w.fs.Remove(dir) // it may be gone
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
