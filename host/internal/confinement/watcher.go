package confinement

import (
	"fmt"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// watcher repairs masks while calls run. It watches the directories of denied paths, because an editor that saves by
// renaming removes the mask.
type watcher struct {
	fs    *fsnotify.Watcher
	masks *masks
}

func newWatcher(m *masks) (*watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, watchError(err)
	}
	out := &watcher{w, m}
	go out.run()
	return out, nil
}

func watchError(err error) error {
	return fmt.Errorf("the directories of denied paths cannot be watched: %w. Raise fs.inotify.max_user_watches or fs.inotify.max_user_instances with sysctl", err)
}

// watch adds directories. Those that do not exist are ignored.
func (w *watcher) watch(dirs []string) error {
	known := w.fs.WatchList()
	for _, dir := range dirs {
		if slices.Contains(known, dir) || !isDir(dir) {
			continue
		}
		if err := w.fs.Add(dir); err != nil && isDir(dir) {
			return watchError(err)
		}
	}
	return nil
}

func (w *watcher) close() { _ = w.fs.Close() } // it only ends run

// run checks the masks of all plugins that an event concerns. A failure is reported by the check before the next call.
func (w *watcher) run() {
	for {
		select {
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if e.Op&(fsnotify.Create|fsnotify.Rename|fsnotify.Remove) != 0 {
				w.masks.replaced(e.Name)
			}
		case _, ok := <-w.fs.Errors: // a lost event
			if !ok {
				return
			}
			w.masks.replaced("")
		}
	}
}

// replaced repairs the masks after a change at a path. An empty path means that anything can have changed.
func (m *masks) replaced(path string) {
	m.mu.Lock()
	plugins := slices.Clone(m.plugins)
	m.mu.Unlock()
	for _, p := range plugins {
		p.mu.Lock()
		concerns := path == "" || p.applied[path] != "" || p.search.Concerns(path)
		p.mu.Unlock()
		if concerns {
			p.search.expire()
			_ = m.check(p)    // the next call reports the error
			p.search.expire() // another change can follow, whose event is not read when the next call begins
		}
	}
}
