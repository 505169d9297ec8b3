// Package repository finds git repositories that commands make or change, and takes out what would make a git outside of
// the sandbox run programs. Most callers want [Guard.Watch].
//
// The host searches with its own rights while tools can still run. It opens each directory from the root of its tree,
// follows no link, and replaces files only by renaming in an open directory. A tool that exchanges files meanwhile
// therefore cannot make the host write outside of the tree.
package repository

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/host/internal/quarantine"
)

// Options configures a guard.
type Options struct {
	// Ledgers returns the directory for what trees contained before tools ran. It returns "" if nothing is kept.
	Ledgers func() string
	Store   func() (Store, error)
	// Took is called with each entry that is taken out.
	Took func(e *quarantine.Entry)
	Log  *slog.Logger

	interval time.Duration // between searches while no call runs
	limit    int           // of directories in a tree
}

// interval is the time between two searches while no call runs. Commands can run on in the background.
const interval = 5 * time.Second

// Guard watches writable directories. It is safe for concurrent use.
type Guard struct {
	opts  Options
	mu    sync.Mutex
	trees map[string]*watched
	// unguarded are directories with a plugin in whose sandbox the repository at the top is not protected.
	unguarded map[string]bool
	closed    bool
	ticker    chan struct{} // closed by Close; nil before the first tree
	idle      sync.WaitGroup
}

// watched is a tree with what it contained before tools ran.
type watched struct {
	*tree
	ledger  *ledger
	known   map[string]bool
	guarded bool     // the kernel protects the repository at the top
	granted bool     // a plugin may write settings and hooks; only searches after calls of others happen
	ignored bool     // the configuration permits everything
	told    bool     // a result reported that the tree is partial
	late    []string // messages of searches between calls, for the next call
}

// New returns a guard that watches nothing.
func New(opts Options) *Guard {
	if opts.interval == 0 {
		opts.interval = interval
	}
	if opts.limit == 0 {
		opts.limit = maxDirectories
	}
	return &Guard{opts: opts, trees: make(map[string]*watched), unguarded: make(map[string]bool)}
}

// Dir is a writable directory of a plugin.
type Dir struct {
	Path string
	// Guarded reports whether the kernel protects the settings and hooks of the repository at the top.
	Guarded bool
}

// Watch prepares for a call that can write directories. The first call for a directory reads all of it. The returned
// function must be called after the call. It takes out what was added, and returns messages about it. If allowed is set,
// additions stay. Watch returns an error if a directory cannot be watched.
func (g *Guard) Watch(dirs []Dir, allowed bool) (after func() []string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var paths []string
	for _, dir := range outermost(dirs) {
		paths = append(paths, dir.Path)
		if err := g.add(dir); err != nil {
			return nil, fmt.Errorf("repositories in %s cannot be watched: %w", dir.Path, err)
		}
		w := g.trees[dir.Path]
		w.ignored = false
		w.granted = w.granted || allowed
	}
	return func() []string { return g.search(paths, allowed) }, nil
}

// outermost returns the directories that are in no other one, without duplicates.
func outermost(dirs []Dir) (out []Dir) {
	for i, dir := range dirs {
		if !slices.ContainsFunc(dirs, func(other Dir) bool { return other.Path != dir.Path && under(other.Path, dir.Path) }) &&
			!slices.ContainsFunc(dirs[:i], func(other Dir) bool { return other.Path == dir.Path }) {
			out = append(out, dir)
		}
	}
	return out
}

func under(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// add begins to watch a directory, unless it is watched. A directory that does not exist is not watched.
func (g *Guard) add(dir Dir) error {
	w := g.trees[dir.Path]
	if w != nil && !w.moved() {
		return nil
	}
	t, err := newTree(dir.Path, g.opts.limit)
	if err != nil {
		return err
	}
	if w != nil { // another directory is at the path now
		w.root.close()
		w.tree = t
		w.update()
		return nil
	}
	w = &watched{tree: t, known: make(map[string]bool), guarded: dir.Guarded && !g.unguarded[dir.Path] && isDir(filepath.Join(dir.Path, ".git"))}
	l, before, err := openLedger(g.opts.Ledgers(), dir.Path)
	if err != nil {
		t.root.close()
		return err
	}
	w.ledger = l
	t.update()
	g.trees[dir.Path] = w
	adopted := g.inspector(w).check()
	if before != nil { // another host runs, or was killed
		w.guarded = w.guarded && before.Guarded
		for _, key := range before.Known {
			w.known[key] = true
		}
		adopted = slices.DeleteFunc(adopted, func(f found) bool { return !w.exempt(f.rel) })
		w.forgetStates()
	}
	w.adopt(adopted)
	if err := w.save(); err != nil {
		delete(g.trees, dir.Path)
		t.root.close()
		return errors.Join(err, l.close())
	}
	if g.ticker == nil && !g.closed {
		g.ticker = make(chan struct{})
		g.idle.Go(g.tick)
	}
	return nil
}

// forgetStates makes the next search inspect all repositories.
func (w *watched) forgetStates() {
	for _, r := range w.repos {
		r.watched = nil
	}
}

func (w *watched) adopt(all []found) {
	for _, f := range all {
		for _, key := range f.keys {
			w.known[key] = true
		}
	}
}

func (w *watched) save() error {
	r := record{Root: w.path, Known: []string{}, Guarded: w.guarded}
	for key := range w.known {
		r.Known = append(r.Known, key)
	}
	slices.Sort(r.Known)
	return w.ledger.write(&r)
}

// exempt reports whether the kernel protects a file. A change of it came from outside of the sandbox.
func (w *watched) exempt(rel string) bool {
	if !w.guarded {
		return false
	}
	return rel == ".git/config" || rel == ".git/hooks" || strings.HasPrefix(rel, ".git/hooks/")
}

func isDir(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.IsDir()
}

// inspector returns an inspector of a tree. Pointers into all watched trees are harmless.
func (g *Guard) inspector(w *watched) *inspector {
	i := &inspector{tree: w.tree, all: []*tree{w.tree}}
	for _, other := range g.trees {
		if other != w {
			i.all = append(i.all, other.tree)
		}
	}
	return i
}

// Unguard records that a plugin runs in whose sandbox the repository at the top of a directory is not protected.
func (g *Guard) Unguard(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unguarded[path] = true
	if w := g.trees[path]; w != nil && w.guarded {
		w.guarded = false
		w.forgetStates()
	}
}

// Ignore ends the searches in a directory between calls, until [Guard.Watch] is called for it.
func (g *Guard) Ignore(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.trees[path]; w != nil {
		w.ignored = true
	}
}

// search searches directories after a call.
func (g *Guard) search(paths []string, allowed bool) (out []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, path := range paths {
		w := g.trees[path]
		if w == nil { // closed
			continue
		}
		out = append(out, w.late...)
		w.late = nil
		w.update()
		all := g.inspector(w).check()
		if allowed {
			w.adopt(all)
			if err := w.save(); err != nil {
				g.opts.Log.Warn("a change of a repository is not remembered", "error", err)
			}
			continue
		}
		out = append(out, g.takeOut(w, all, slog.LevelInfo)...)
		if w.partial && !w.told {
			w.told = true
			out = append(out, fmt.Sprintf("%s has more than %d directories, and repositories in the rest are not checked for settings and hooks that run programs. Use a smaller workspace", w.path, w.limit))
		}
	}
	return out
}

// takeOut takes out what is neither known nor restored, and returns a message for each file. The level is that of the log.
func (g *Guard) takeOut(w *watched, all []found, level slog.Level) (out []string) {
	all = slices.DeleteFunc(all, func(f found) bool {
		return w.exempt(f.rel) || !slices.ContainsFunc(f.keys, func(key string) bool { return !w.known[key] })
	})
	if len(all) == 0 {
		return nil
	}
	store, err := g.opts.Store()
	if err != nil {
		return []string{fmt.Sprintf("%s makes git run programs, but the quarantine cannot be used: %v", filepath.Join(w.path, all[0].rel), err)}
	}
	restored, err := store.Allowed()
	if err != nil {
		g.opts.Log.Warn("nothing in the quarantine counts as restored", "error", err)
	}
	drop := func(key string) bool { return !w.known[key] && !restored[key] }
	for _, f := range all {
		if !slices.ContainsFunc(f.keys, drop) {
			w.adopt([]found{f})
			continue
		}
		if f.repo != nil {
			f.repo.watched = nil // look again
		}
		e, err := w.takeOut(&f, drop, store)
		switch {
		case errors.Is(err, errNothing) || errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			g.opts.Log.Warn("a repository runs programs, which could not be taken out", "path", filepath.Join(w.path, f.rel), "error", err)
			out = append(out, fmt.Sprintf("%s makes git run programs (%s), and could not be moved to the quarantine: %v. Do not run git there before you have checked it", filepath.Join(w.path, f.rel), f.why, err))
			continue
		}
		if g.opts.Took != nil {
			g.opts.Took(e)
		}
		g.opts.Log.Log(context.Background(), level, "moved to the quarantine", "path", e.Path, "why", e.Why, "names", e.Names, "id", e.ID)
		out = append(out, message(e))
	}
	return out
}

// message describes an entry to the model and the person.
func message(e *quarantine.Entry) string {
	what := e.Path
	if len(e.Names) > 0 {
		shown := e.Names[:min(len(e.Names), 5)]
		what = strings.Join(shown, ", ")
		if more := len(e.Names) - len(shown); more > 0 {
			what += fmt.Sprintf(" and %d more", more)
		}
		what += " in " + e.Path
	}
	return fmt.Sprintf("%s was moved to the quarantine: %s, also outside of the sandbox. A person can restore it: toolhost quarantine restore %s", what, e.Why, e.ID)
}

// tick searches while no call runs. A search of a large tree makes the pauses longer.
func (g *Guard) tick() {
	pause := g.opts.interval
	for {
		select {
		case <-g.ticker:
			return
		case <-time.After(pause):
		}
		began := time.Now()
		g.searchAll()
		pause = max(g.opts.interval, 100*time.Since(began))
	}
}

// searchAll searches all directories in which no plugin may write settings and hooks. The next call gets the messages.
func (g *Guard) searchAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.trees {
		if !w.granted && !w.ignored {
			w.update()
			w.late = append(w.late, g.takeOut(w, g.inspector(w).check(), slog.LevelWarn)...)
		}
	}
}

// Close searches a last time and stops watching. All plugins must have exited.
func (g *Guard) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	if g.ticker != nil {
		close(g.ticker)
	}
	g.mu.Unlock()
	g.idle.Wait()
	g.searchAll()
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for path, w := range g.trees {
		errs = append(errs, w.ledger.close())
		w.root.close()
		delete(g.trees, path)
	}
	return errors.Join(errs...)
}
