// Package repository finds git repositories that commands make or change, and takes out what would make a git outside of
// the sandbox run programs. It also takes out new settings of other programs, such as editors. Most callers want
// [Guard.Watch].
//
// The host searches with its own rights while tools can still run. It opens each directory from the root of its tree,
// follows no link, and replaces files only by renaming in an open directory. A tool that exchanges files meanwhile
// therefore cannot make the host write outside of the tree.
package repository

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/quarantine"
)

// Options configures a guard.
type Options struct {
	// Ledgers returns the directory for the records of trees. It returns "" if no records are kept.
	Ledgers func() string
	Store   func() (Store, error)
	// Took is called with each entry that is taken out.
	Took func(e *quarantine.Entry)
	Log  *slog.Logger

	interval time.Duration // between searches beside calls
	limit    int           // of directories in a tree
}

// interval is the time between two searches beside calls. Commands can run on in the background.
const interval = 5 * time.Second

// Guard watches writable directories. It is safe for concurrent use.
type Guard struct {
	opts Options
	// mu protects the fields below. The lock of a tree is taken before it, so that a search of one tree does not block
	// calls in others.
	mu    sync.Mutex
	trees map[string]*watched
	paths []string // of the trees that are searched
	// unguarded contains the directories of plugins whose sandbox does not protect the repository at the top. The value
	// is true if the sandbox protects nothing.
	unguarded map[string]bool
	closed    bool
	ticker    chan struct{} // closed by Close; nil before the first tree
	idle      sync.WaitGroup
}

// watched is a tree with its content before tools ran.
type watched struct {
	mu    sync.Mutex // protects all other fields
	*tree            // nil before the first search and after the last one
	protection
	ledger  *ledger
	known   map[string]bool
	granted bool     // a plugin may write settings and hooks; only searches after calls of others happen
	ignored bool     // the configuration permits everything
	told    bool     // a result reported that the tree is partial
	late    []string // messages of searches between calls, for the next call
	calls   int      // number of running calls
	// fresh are the relative paths of directories that are new since a moment without a running call.
	fresh map[string]bool
	// waiting has the time at which each file was first seen that is taken out later, because other calls run.
	waiting map[string]time.Time
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
	// Guarded reports whether the kernel protects the settings and hooks of the repository at the top, and what Kept
	// lists.
	Guarded bool
	Kept    Kept
	// Settings contains names of settings of other programs. New ones are taken out.
	Settings []string
	// NoRepositories reports that repositories are not searched.
	NoRepositories bool
}

// Kept contains other files and directories that the kernel protects.
type Kept struct {
	// Globs are the globs of the configuration that Paths uses. If they change, the protection of the paths ends.
	Globs []string
	// Paths returns the paths that exist. Watch calls it before the first call for a directory. It can be nil.
	Paths func() ([]string, error)
}

// Watch prepares for a call that can write directories. The first call for a directory reads all of it. The returned
// function must be called after the call. It takes out what was added, and returns messages about it. If allowed is set,
// additions stay. Watch returns an error if a directory cannot be watched.
func (g *Guard) Watch(dirs []Dir, allowed bool) (after func() []string, err error) {
	var paths []string
	for _, dir := range outermost(dirs) {
		paths = append(paths, dir.Path)
		if err := g.watch(dir, allowed); err != nil {
			if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
				err = fmt.Errorf("%w. Free space on the disk of the state directory", err)
			}
			return nil, fmt.Errorf("repositories in %s cannot be watched: %w", dir.Path, err)
		}
	}
	for _, path := range paths {
		if w := g.tree(path, false); w != nil {
			w.begin()
		}
	}
	return func() []string { return g.search(paths, allowed) }, nil
}

// tree returns the tree at a path. If the path has no tree, it creates one, or returns nil if create is false.
func (g *Guard) tree(path string, create bool) *watched {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.trees[path]
	if w == nil && create {
		w = new(watched)
		g.trees[path] = w
	}
	return w
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

// watch begins to watch a directory, unless it is watched.
func (g *Guard) watch(dir Dir, allowed bool) error {
	w := g.tree(dir.Path, true)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.tree == nil:
		if err := g.add(w, dir); err != nil {
			return err
		}
	case w.moved():
		t, err := newTree(dir.Path, g.opts.limit)
		if err != nil {
			return err
		}
		t.watchSettings(dir.Settings)
		w.end()
		w.root.close()
		w.tree = t
		w.update()
		w.adopt(w.loaded()) // tools cannot replace the directory itself
	default:
		w.change(&dir)
	}
	w.ignored = dir.NoRepositories
	w.granted = w.granted || allowed
	return nil
}

// change applies what differs from an earlier call. Settings that exist stay.
func (w *watched) change(dir *Dir) {
	if !slices.Equal(w.globs, dir.Kept.Globs) {
		w.endKept()
	}
	if !slices.Equal(w.names, dir.Settings) {
		w.watchSettings(dir.Settings)
		w.update()
		w.adopt(w.loaded())
	}
}

// add reads a directory for the first time.
func (g *Guard) add(w *watched, dir Dir) (err error) {
	t, err := newTree(dir.Path, g.opts.limit)
	if err != nil {
		return err
	}
	t.watchSettings(dir.Settings)
	w.tree, w.known, w.ledger = t, make(map[string]bool), &ledger{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close(w.ledger.abandon))
		}
	}()
	if top, all := g.unprotected(dir.Path); dir.Guarded && !all {
		var kept []string
		if dir.Kept.Paths != nil {
			if kept, err = dir.Kept.Paths(); err != nil {
				return err
			}
		}
		w.protection = protects(t, !top && isDir(filepath.Join(dir.Path, ".git")), kept)
	}
	w.globs = slices.Clone(dir.Kept.Globs)
	l, before, err := openLedger(g.opts.Ledgers(), dir.Path)
	if err != nil {
		return err
	}
	w.ledger = l
	t.update()
	adopted := g.inspector(w).check()
	if before != nil { // another host runs, or was killed
		if !before.Guarded {
			w.endTop()
		}
		for _, key := range before.Known {
			w.known[key] = true
		}
		adopted = slices.DeleteFunc(adopted, func(f found) bool { return !w.exempt(f.rel) })
		w.forgetStates()
	}
	if before == nil {
		w.adopt(w.loaded())
	}
	w.adopt(adopted)
	if err := w.save(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paths = append(g.paths, dir.Path)
	if g.ticker == nil && !g.closed {
		g.ticker = make(chan struct{})
		g.idle.Go(g.tick)
	}
	return nil
}

// close stops watching a tree. The function unlock ends the use of the ledger.
func (w *watched) close(unlock func() error) error {
	err := unlock()
	w.end()
	w.root.close()
	w.tree, w.ledger = nil, nil
	return err
}

// forgetStates makes the next search inspect all repositories.
func (w *watched) forgetStates() {
	for _, r := range w.repos {
		r.forget()
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
	r := record{Root: w.path, Known: []string{}, Guarded: w.top}
	for key := range w.known {
		r.Known = append(r.Known, key)
	}
	slices.Sort(r.Known)
	return w.ledger.write(&r)
}

func isDir(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.IsDir()
}

// inspector returns an inspector of a tree. Pointers into all searched trees are harmless.
func (g *Guard) inspector(w *watched) *inspector {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &inspector{tree: w.tree, all: append([]string{w.path}, g.paths...)}
}

// check returns the files and settings in a tree that make git run programs. Changes of protected files came from
// outside of the sandbox, so check adds them to the known ones. The caller must first update the tree.
func (g *Guard) check(w *watched) []found {
	all := g.inspector(w).check()
	if w.renew(w.tree) { // tools could write after somebody replaced a file
		g.ended(w)
		all = g.inspector(w).check()
	}
	for _, f := range all {
		if w.exempt(f.rel) {
			w.adopt([]found{f})
		}
	}
	return all
}

// Ignore ends the searches in a directory between calls, until [Guard.Watch] is called for it.
func (g *Guard) Ignore(path string) {
	if w := g.tree(path, false); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ignored = true
	}
}

// search searches directories after a call.
func (g *Guard) search(paths []string, allowed bool) (out []string) {
	for _, path := range paths {
		if w := g.tree(path, false); w != nil {
			out = append(out, g.searchTree(w, allowed)...)
		}
	}
	if more := len(out) - maxMessages; more > 0 {
		out = append(out[:maxMessages], fmt.Sprintf("%d more were moved to the quarantine, or could not be. For a list, run: toolhost quarantine list", more))
	}
	return out
}

// maxMessages limits the messages in the result of a call.
const maxMessages = 20

func (g *Guard) searchTree(w *watched, allowed bool) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.finish()
	if w.tree == nil { // closed
		return nil
	}
	out, w.late = w.late, nil
	w.update()
	out = append(out, g.takeLoaded(w, slog.LevelInfo)...)
	if w.ignored {
		return out
	}
	all := g.check(w)
	if allowed {
		w.adopt(all)
		if err := w.save(); err != nil {
			g.opts.Log.Warn("a permitted change of a repository could not be stored, so a later host can move it to the quarantine", "error", err)
		}
		return out
	}
	out = append(out, g.takeOut(w, all, w.calls > 1, slog.LevelInfo)...)
	if w.partial && !w.told {
		w.told = true
		out = append(out, fmt.Sprintf("%s has more than %d directories, and repositories in the rest are not checked for settings and hooks that run programs. Use a smaller workspace", w.path, w.limit))
	}
	return out
}

// tick searches again and again. A search of a large tree makes the pauses longer.
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
	for _, w := range g.all() {
		w.mu.Lock()
		repositories := !w.granted && !w.ignored
		if w.tree != nil && (repositories || len(w.names) > 0) {
			w.update()
			g.adoptLoaded(w)
			if repositories {
				w.late = append(w.late, g.takeOut(w, g.check(w), w.calls > 0, slog.LevelWarn)...)
			}
			w.late = w.late[max(0, len(w.late)-maxMessages):]
		}
		w.mu.Unlock()
	}
}

func (g *Guard) all() []*watched {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.trees))
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
	var errs []error
	for _, w := range g.all() {
		w.mu.Lock()
		if w.tree != nil {
			errs = append(errs, w.close(w.ledger.close))
		}
		w.mu.Unlock()
	}
	return errors.Join(errs...)
}
