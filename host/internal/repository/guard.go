// Package repository guards git repositories that commands create or change. It moves files and settings that would
// make git run programs outside the sandbox to the [Quarantine]. It also moves new settings of other programs, such as
// editors. Most callers want [Guard.Watch].
//
// The host searches with its own rights while tools can still run. It opens each directory from the root of its tree,
// follows no link, and replaces files only by renaming in an open directory. Therefore a tool that exchanges files
// during a search cannot make the host write outside the tree. Tools cannot write to the directory of the quarantine.
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

	"toolhost.dev/sdk/tool"
)

// Options configures a guard.
type Options struct {
	// Ledgers returns the directory for the records of trees. It returns "" if no records are kept.
	Ledgers func() string
	Store   func() (Store, error)
	// Took is called with each entry that the guard moves to the quarantine.
	Took func(e *QuarantineEntry)
	Log  *slog.Logger

	interval time.Duration // time between two searches without a call
	limit    int           // maximum number of directories in a tree
}

// interval is the time between two searches without a call. Commands can continue in the background after their call.
const interval = 5 * time.Second

// Guard watches writable directories. It is safe for concurrent use.
type Guard struct {
	opts Options
	// mu protects the fields below. A goroutine locks the tree before it locks mu, so that a search of one tree does
	// not block calls in other trees.
	mu    sync.Mutex
	trees map[string]*watched
	paths []string // paths of the trees that the guard searches
	// incomplete contains the trees that have more directories than the limit, and the relative paths of the
	// repositories that the search found there. The number "counted" changes with it.
	incomplete map[string]map[string]bool
	counted    int
	// unguarded contains directories of plugins whose sandbox does not protect the repository at the top of the
	// directory. The value is true if the sandbox protects no file in the directory.
	unguarded map[string]bool
	closed    bool
	ticker    chan struct{} // closed by Close; nil before the first tree
	idle      sync.WaitGroup
}

// watched is a tree, with its content at the time before tools ran.
type watched struct {
	mu    sync.Mutex // protects all other fields
	*tree            // nil before the first search and after the last search
	protection
	ledger  *ledger
	known   map[string]bool
	granted bool     // whether a plugin is allowed to write settings and hooks; the guard then searches only after calls of other plugins
	ignored bool     // whether the configuration permits all changes
	told    bool     // whether the result of a call reported that the search is incomplete
	late    []string // messages of searches without a call; the next call reports them
	calls   int      // number of running calls
	counted int      // Guard.counted at the last inspection
	// fresh contains the relative paths of new directories. These directories were created after the last moment at
	// which no call ran.
	fresh map[string]bool
	// waiting maps each file that the guard will remove later to the time when the guard first saw the file. The
	// removal is delayed while other calls run.
	waiting map[string]time.Time
}

// New returns a guard that watches no directory.
func New(opts Options) *Guard {
	if opts.interval == 0 {
		opts.interval = interval
	}
	if opts.limit == 0 {
		opts.limit = maxDirectories
	}
	return &Guard{opts: opts, trees: make(map[string]*watched), incomplete: make(map[string]map[string]bool),
		unguarded: make(map[string]bool)}
}

// Dir is a writable directory of a plugin.
type Dir struct {
	Path string
	// Guarded reports whether the kernel protects the files in Kept, and the settings and hooks of the repository at
	// the top.
	Guarded bool
	Kept    Kept
	// Settings contains names of settings files of other programs. The guard moves new files with these names to the
	// quarantine.
	Settings []string
	// NoRepositories disables the search for repositories.
	NoRepositories bool
}

// Kept contains the files and directories outside of repositories that the kernel protects.
type Kept struct {
	// Globs are the globs of the configuration that Paths uses. If the globs change, the protection of the paths ends.
	Globs []string
	// Paths returns the existing paths. Watch calls Paths before the first call for a directory. Paths can be nil.
	Paths func() ([]string, error)
}

// Watch prepares for a call that can write to directories. The first call of Watch for a directory reads the whole
// directory. The caller must call the function "after" at the end of the call. If allowed is false, after moves
// dangerous additions to the quarantine and returns messages about them. Watch returns an error if a directory cannot
// be watched.
func (g *Guard) Watch(dirs []Dir, allowed bool) (after func() []string, err error) {
	if err := g.Prepare(dirs, allowed); err != nil {
		return nil, err
	}
	var paths []string
	for _, dir := range outermost(dirs) {
		paths = append(paths, dir.Path)
		if w := g.tree(dir.Path, false); w != nil {
			w.begin()
		}
	}
	return func() []string { return g.search(paths, allowed) }, nil
}

// Prepare begins to watch directories, as Watch does, for a plugin that is about to start. What the plugin writes
// before its first call is searched with the next search.
func (g *Guard) Prepare(dirs []Dir, allowed bool) error {
	for _, dir := range outermost(dirs) {
		if err := g.watch(dir, allowed); err != nil {
			if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
				err = fmt.Errorf("%w. Free space on the disk of the state directory", err)
			}
			return fmt.Errorf("repositories in %s cannot be watched: %w", dir.Path, err)
		}
	}
	return nil
}

// tree returns the tree at a path. For a path without a tree, it creates a tree if create is true.
// Otherwise it returns nil.
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

// outermost removes duplicates, and directories inside other directories of the list.
func outermost(dirs []Dir) (out []Dir) {
	for i, dir := range dirs {
		if !slices.ContainsFunc(dirs,
			func(other Dir) bool { return other.Path != dir.Path && tool.Within(other.Path, dir.Path) }) &&
			!slices.ContainsFunc(dirs[:i], func(other Dir) bool { return other.Path == dir.Path }) {
			out = append(out, dir)
		}
	}
	return out
}

// watch begins to watch a directory. It updates the attributes of a directory that is already watched.
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
		w.adopt(w.loaded()) // tools cannot replace the directory itself, so its settings are known
	default:
		w.change(&dir)
	}
	w.ignored = dir.NoRepositories
	w.granted = w.granted || allowed
	return nil
}

// change applies new attributes of a watched directory. Existing settings files stay.
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
	if before != nil { // another host is running or was killed
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

// close stops watching a tree. The function "unlock" ends the use of the ledger.
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

// inspector returns an inspector of a tree. The inspector treats a pointer into any searched tree as
// harmless. If the tree is not searched completely, the search must have found the target.
func (g *Guard) inspector(w *watched) *inspector {
	g.mu.Lock()
	defer g.mu.Unlock()
	var repos map[string]bool
	if w.partial {
		repos = make(map[string]bool, len(w.repos))
		for rel := range w.repos {
			repos[rel] = true
		}
	}
	if was := g.incomplete[w.path]; (was == nil) != (repos == nil) || !maps.Equal(was, repos) {
		g.incomplete[w.path] = repos
		g.counted++
	}
	if w.counted != g.counted { // what was harmless can lead to a place that is not searched
		w.counted = g.counted
		w.forgetStates()
	}
	out := &inspector{tree: w.tree, all: []string{w.path}, incomplete: make(map[string]map[string]bool)}
	for _, path := range g.paths {
		if found := g.incomplete[path]; found != nil && path != w.path {
			out.incomplete[path] = found
		} else {
			out.all = append(out.all, path)
		}
	}
	return out
}

// check returns the files and settings in a tree that make git run programs. The sandbox cannot write protected files.
// If such a file changed, something outside the sandbox changed it, so check records the new content as known. The
// caller must first update the tree.
func (g *Guard) check(w *watched) []found {
	all := g.inspector(w).check()
	if w.renew(w.tree) { // tools were able to write after somebody replaced a file
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

// Ignore stops the searches of a directory without a call. The searches start again with the next call of [Guard.Watch]
// for the directory.
func (g *Guard) Ignore(path string) {
	if w := g.tree(path, false); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ignored = true
	}
}

// search searches directories after a call.
func (g *Guard) search(paths []string, allowed bool) (out []string) {
	before := g.count()
	for _, path := range paths {
		if w := g.tree(path, false); w != nil {
			out = append(out, g.searchTree(w, allowed)...)
		}
	}
	if g.count() != before && len(paths) > 1 { // the first trees were inspected before the last ones were found to be too large
		for _, path := range paths {
			if w := g.tree(path, false); w != nil {
				w.begin()
				out = append(out, g.searchTree(w, allowed)...)
			}
		}
	}
	if more := len(out) - maxMessages; more > 0 {
		out = append(out[:maxMessages], fmt.Sprintf("%d more files or settings were moved to the quarantine, or could not be moved there. For a list, run: toolhost quarantine list", more))
	}
	return out
}

func (g *Guard) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counted
}

// maxMessages limits the messages in the result of a call.
const maxMessages = 20

func (g *Guard) searchTree(w *watched, allowed bool) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.finish()
	if w.tree == nil { // the tree is closed
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

// tick searches periodically. The search of a large tree makes the intervals longer.
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

// searchAll searches all directories in which no plugin is allowed to write settings and hooks. The next call reports
// the messages.
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
func (g *Guard) Close() error { return g.close(g.searchAll) }

// Stop is like [Guard.Close], but without the last search. Call it for a guard that watches only a single change by the
// host itself, if the directories were searched after this change.
func (g *Guard) Stop() error { return g.close(func() {}) }

func (g *Guard) close(last func()) error {
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
	last()
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
