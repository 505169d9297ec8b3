package confinement

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
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
	known := make(map[string]bool)
	for _, dir := range w.fs.WatchList() {
		known[dir] = true
	}
	for _, dir := range dirs {
		if known[dir] || !isDir(dir) {
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
			if e.Op&(fsnotify.Rename|fsnotify.Remove) != 0 { // the kernel does not watch the directory any more, if it was one
				w.masks.unwatched()
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

// watch makes the watcher monitor the directories that contain matches of the given generation.
func (m *masks) watch(p *masked, generation int) error {
	m.mu.Lock()
	w := m.watcher
	m.mu.Unlock()
	p.mu.Lock()
	done := p.watched == generation
	p.mu.Unlock()
	if done || w == nil || !p.search.hides {
		return nil
	}
	if err := w.watch(p.search.Directories()); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = generation
	return nil
}

// unwatched makes the next check of each plugin add the missing watches.
func (m *masks) unwatched() {
	for _, p := range m.all() {
		p.mu.Lock()
		p.watched = 0
		p.mu.Unlock()
	}
}

// all returns the running plugins.
func (m *masks) all() []*masked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.plugins)
}

// replaced repairs the masks after a change at a path. An empty path means that any path can have changed.
func (m *masks) replaced(path string) {
	plugins := slices.DeleteFunc(m.all(), func(p *masked) bool { return path != "" && !p.concerns(path) })
	expire := func() {
		for _, p := range plugins {
			p.search.expire()
		}
	}
	expire()
	for _, p := range plugins {
		_ = m.check(p) // ignore the error: the next call reports it
		m.uncover(p)
	}
	expire() // a further change can happen before the next call reads its event
}

// concerns reports whether a new entry at a path can need a mask.
func (p *masked) concerns(path string) bool {
	p.mu.Lock()
	seen := p.seen[path]
	p.mu.Unlock()
	if seen || p.search.Concerns(path) {
		return true
	}
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 // it can be another name of a denied file
}

// uncover refreshes the branch of a process if a path needs a mask and the process does not see the path. Otherwise the
// path would appear without a mask as soon as the kernel drops its cache of missing names.
func (m *masks) uncover(p *masked) {
	if refresh := p.refresh; refresh != nil && p.misses(p.roots[0].Branch) {
		_ = refresh(p.roots[0].Branch) // ignore the error: the next call reports it
		_ = m.check(p)                 // the same
	}
}

// misses reports whether the process is in the given branch and, at the last check, a path that needs a mask did not
// exist for it.
func (p *masked) misses(branch string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return branch != "" && p.roots[0].Branch == branch && len(p.absent) > 0
}

// Refreshed checks the processes in a branch after a refresh of the branch. The refresh can make denied paths visible
// to these processes, including those that run other calls.
func (l *Launcher) Refreshed(branch string) {
	m := &l.parts.masks
	for _, p := range m.all() {
		if p.misses(branch) {
			_ = m.check(p) // ignore the error: the next call of the plugin reports it
		}
	}
}

// expire marks the last searches as too old, so that the check before the next call searches again.
func (m *masks) expire() {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.finders))
	for _, p := range m.plugins { // a search of a running plugin need not be cached
		all = append(all, p.search)
	}
	m.mu.Unlock()
	for _, s := range all {
		if !s.settings {
			s.expire()
		}
	}
}
