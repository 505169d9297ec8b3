package confinement

import (
	"fmt"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// watcher repairs masks while calls run. It monitors the directories of denied paths, because an editor that saves by
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

// watch monitors the given directories. It ignores missing directories.
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

func (w *watcher) close() { _ = w.fs.Close() } // ignore the error: closing only ends the method run

// run checks the masks of all plugins that are affected by an event. The check before the next call reports a failure.
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
		case _, ok := <-w.fs.Errors: // an error means that events were lost
			if !ok {
				return
			}
			w.masks.replaced("")
		}
	}
}

// replaced repairs the masks after a change at a path. An empty path means that any path can have changed.
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
			_ = m.check(p)    // ignore the error: the next call reports it
			p.search.expire() // a further change can happen before the next call reads its event
		}
	}
}
