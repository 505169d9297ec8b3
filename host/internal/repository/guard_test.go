//go:build linux

package repository

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fixture is a directory with a guard.
type fixture struct {
	dir, state string
	store      *Quarantine
	fail       error // error of the method Keep
	limit      int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	state := t.TempDir()
	return &fixture{dir: dir, state: state, store: OpenQuarantine(state)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Keep implements Store.
func (f *fixture) Keep(e *QuarantineEntry) error {
	if f.fail != nil {
		return f.fail
	}
	return f.store.Keep(e)
}

// Allowed implements Store.
func (f *fixture) Allowed() (map[string]bool, error) { return f.store.Allowed() }

func (f *fixture) guard() *Guard {
	return New(Options{
		Ledgers: func() string { return filepath.Join(f.state, "repositories") }, Store: func() (Store, error) { return f, nil },
		Log: slog.New(slog.DiscardHandler), interval: time.Hour, limit: f.limit,
	})
}

// call runs the function "do" as a watched call, and returns the messages of the guard.
func (f *fixture) call(t *testing.T, g *Guard, guarded, allowed bool, do func()) []string {
	t.Helper()
	after, err := g.Watch([]Dir{{Path: f.dir, Guarded: guarded, Settings: []string{".vscode", ".mcp.json"}}}, allowed)
	must(t, err)
	do()
	return after()
}

func (f *fixture) git(t *testing.T, args ...string) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = f.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (f *fixture) has(path, text string) bool {
	b, err := os.ReadFile(filepath.Join(f.dir, path))
	return err == nil && strings.Contains(string(b), text)
}

func (f *fixture) entries(t *testing.T) int {
	t.Helper()
	all, err := f.store.List()
	must(t, err)
	return len(all)
}

func TestKnownContentStays(t *testing.T) {
	f := newFixture(t)
	f.git(t, "init", "-q", "a")
	f.git(t, "-C", "a", "config", "core.pager", "mine")
	g := f.guard()
	out := f.call(t, g, false, false, func() { f.git(t, "-C", "a", "config", "core.editor", "evil") })
	if len(out) != 1 || !strings.Contains(out[0], "core.editor in "+f.dir+"/a/.git/config") || f.has("a/.git/config", "evil") || !f.has("a/.git/config", "mine") {
		t.Errorf("%q", out)
	}
	// A known setting with a new value counts as unknown.
	out = f.call(t, g, false, false, func() { f.git(t, "-C", "a", "config", "core.pager", "evil") })
	if len(out) != 1 || f.has("a/.git/config", "evil") {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
}

func TestAllowedPlugin(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	out := f.call(t, g, false, true, func() {
		f.git(t, "init", "-q", "a")
		f.git(t, "-C", "a", "config", "core.pager", "x")
	})
	out = append(out, f.call(t, g, false, false, func() {})...)
	must(t, g.Close())
	if len(out) != 0 || !f.has("a/.git/config", "pager") {
		t.Errorf("%q", out)
	}
}

// TestGuardedRepository checks that a person can change files that the kernel protects from tools. If the person
// replaces a file, the kernel no longer protects the file.
func TestGuardedRepository(t *testing.T) {
	f := newFixture(t)
	f.git(t, "init", "-q")
	must(t, os.RemoveAll(filepath.Join(f.dir, ".git/hooks")))
	g := f.guard()
	out := f.call(t, g, true, false, func() { // the host creates the directory before a plugin starts
		must(t, os.Mkdir(filepath.Join(f.dir, ".git/hooks"), 0o700))
		must(t, os.WriteFile(filepath.Join(f.dir, ".git/hooks/pre-push"), []byte("mine"), 0o700))
		file, err := os.OpenFile(filepath.Join(f.dir, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = file.WriteString("[core]\n\tpager = mine\n")
		must(t, errors.Join(err, file.Close()))
	})
	if len(out) != 0 || !f.has(".git/config", "mine") || !f.has(".git/hooks/pre-push", "mine") {
		t.Errorf("%q", out)
	}
	out = f.call(t, g, true, false, func() { f.git(t, "config", "user.name", "me") })
	if len(out) != 0 || !f.has(".git/config", "pager = mine") {
		t.Errorf("%q", out)
	}
	out = f.call(t, g, true, false, func() { f.git(t, "config", "core.editor", "evil") }) // a tool can now make this change, too
	if len(out) != 1 || f.has(".git/config", "evil") || !f.has(".git/config", "pager = mine") {
		t.Errorf("after the file was replaced: %q", out)
	}
	must(t, g.Close())
}

// TestManySettings checks that a file with very many settings is moved as a whole.
func TestManySettings(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	out := f.call(t, g, false, false, func() {
		f.git(t, "init", "-q", "a")
		must(t, os.WriteFile(filepath.Join(f.dir, "a/.git/config"), []byte("[alias]\n"+strings.Repeat("x = !y\n", maxSettings+1)), 0o600))
	})
	if len(out) != 1 || !strings.Contains(out[0], "more than 500 settings") || f.has("a/.git/config", "") {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
}

// TestUnguard checks the end of the protection of a directory. Files that were added under the protection must stay,
// and later changes must be found.
func TestUnguard(t *testing.T) {
	f := newFixture(t)
	f.git(t, "init", "-q")
	g := f.guard()
	hook := filepath.Join(f.dir, ".git/hooks/pre-push")
	f.call(t, g, true, false, func() { must(t, os.WriteFile(hook, []byte("mine"), 0o700)) })
	g.Unguard(f.dir, false)
	if out := f.call(t, g, true, false, func() {}); len(out) != 0 || !f.has(".git/hooks/pre-push", "mine") {
		t.Errorf("what was added from outside: %q", out)
	}
	if out := f.call(t, g, true, false, func() { must(t, os.WriteFile(hook, []byte("evil"), 0o700)) }); len(out) != 1 {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
}

// TestMappedFile checks that the guard finds a change through a memory mapping. Such a change does not alter the times
// of the file.
func TestMappedFile(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	const evil = "[core]\n\teditor = evil\n"
	config := filepath.Join(f.dir, "a/.git/config")
	f.call(t, g, false, false, func() {
		f.git(t, "init", "-q", "a")
		must(t, os.WriteFile(config, []byte(strings.Repeat("#", len(evil))), 0o600))
	})
	file, err := os.OpenFile(config, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	mapped, err := unix.Mmap(int(file.Fd()), 0, len(evil), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	defer unix.Munmap(mapped)
	mapped[0] = '#' // from here on, the program can write to the page
	w := g.trees[f.dir]
	for g.inspector(w).changed(w.repos["a/.git"]) { // wait until the state of the file is old enough
		f.call(t, g, false, false, func() {})
	}
	out := f.call(t, g, false, false, func() { copy(mapped, evil) })
	if len(out) != 1 || f.has("a/.git/config", "evil") {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
}

// TestKeptFiles checks that the search does not move files that the kernel protects from tools. It must move files that
// replaced protected files.
func TestKeptFiles(t *testing.T) {
	f := newFixture(t)
	kept := filepath.Join(f.dir, "app/config")
	must(t, os.MkdirAll(filepath.Join(f.dir, "app/hooks"), 0o700))
	must(t, os.WriteFile(kept, []byte("mine"), 0o600))
	must(t, os.WriteFile(filepath.Join(f.dir, "app/hooks/run"), []byte("mine"), 0o600))
	g := f.guard()
	g.Unguard(f.dir, false) // there is no repository at the top
	watch := func(globs string, do func()) []string {
		after, err := g.Watch([]Dir{{Path: f.dir, Guarded: true, Kept: Kept{
			Globs: []string{globs}, Paths: func() ([]string, error) { return []string{kept, filepath.Join(f.dir, "app/hooks"), "/elsewhere"}, nil },
		}}}, false)
		must(t, err)
		do()
		return after()
	}
	out := watch("x", func() {
		must(t, os.Mkdir(filepath.Join(f.dir, "app/objects"), 0o700))
		must(t, os.Mkdir(filepath.Join(f.dir, "app/refs"), 0o700))
	})
	if len(out) != 0 || !f.has("app/config", "mine") || !f.has("app/hooks/run", "mine") {
		t.Errorf("%q", out)
	}
	out = watch("x", func() {
		must(t, os.Rename(kept, kept+".old"))
		must(t, os.WriteFile(kept, []byte("evil"), 0o600))
	})
	if len(out) != 1 || f.has("app/config", "evil") {
		t.Errorf("%q", out)
	}
	must(t, os.WriteFile(filepath.Join(f.dir, "app/hooks/run"), []byte("evil"), 0o600))
	if out = watch("y", func() {}); len(out) != 1 || f.has("app/hooks/run", "evil") {
		t.Errorf("after the configuration changed: %q", out)
	}
	must(t, g.Close())

	must(t, os.WriteFile(kept, []byte("mine"), 0o600))
	must(t, os.Remove(filepath.Join(f.dir, "app/objects")))
	g = f.guard()
	watch("x", func() {})
	g.Unguard(f.dir, true)
	if out = watch("x", func() { must(t, os.Mkdir(filepath.Join(f.dir, "app/objects"), 0o700)) }); len(out) != 1 || f.has("app/config", "mine") {
		t.Errorf("without protection: %q", out)
	}
	must(t, g.Close())
}

// TestKilledHost checks that a host removes the dangerous files that a killed host missed.
func TestKilledHost(t *testing.T) {
	f := newFixture(t)
	f.git(t, "init", "-q", "a")
	f.git(t, "-C", "a", "config", "core.pager", "mine")
	evil := func() { f.git(t, "-C", "a", "config", "core.editor", "evil") }
	killed := f.guard()
	_, err := killed.Watch([]Dir{{Path: f.dir}}, false)
	must(t, err)
	evil()
	must(t, killed.trees[f.dir].ledger.file.Close()) // the kernel closes the file of a killed process, too
	g := f.guard()
	if out := f.call(t, g, false, false, func() {}); len(out) != 1 || f.has("a/.git/config", "evil") || !f.has("a/.git/config", "mine") {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
	// After a host has ended regularly, the next host must accept all changes, because a person can have made them.
	evil()
	g = f.guard()
	if out := f.call(t, g, false, false, func() {}); len(out) != 0 || !f.has("a/.git/config", "evil") {
		t.Errorf("%q", out)
	}
	// While one host runs, a second host must not accept existing files as known.
	f.git(t, "-C", "a", "config", "core.askPass", "evil")
	other := f.guard()
	if out := f.call(t, other, false, false, func() {}); len(out) != 1 || f.has("a/.git/config", "askPass") {
		t.Errorf("%q", out)
	}
	must(t, errors.Join(other.Close(), g.Close()))
}

// TestBetweenCalls checks that a search that runs between two calls is effective, and that the next call reports its
// result.
func TestBetweenCalls(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	g.opts.interval = time.Millisecond
	f.call(t, g, false, false, func() {})
	f.git(t, "init", "-q", "a")
	f.git(t, "-C", "a", "config", "core.editor", "evil")
	for range 1000 {
		if f.entries(t) == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if out := f.call(t, g, false, false, func() {}); len(out) != 1 || !strings.Contains(out[0], "core.editor") {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
}

// TestOtherCalls checks that the guard does not move a new file immediately while other calls run, because these calls
// can still write to it.
func TestOtherCalls(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	make := func() {
		f.git(t, "init", "-q", "a")
		f.git(t, "-C", "a", "config", "core.editor", "evil")
		f.put(t, ".mcp.json", "evil")
	}
	out := f.call(t, g, false, false, func() {
		if out := f.call(t, g, false, false, make); len(out) != 0 || !f.has("a/.git/config", "evil") || !f.there(".mcp.json") {
			t.Errorf("another call runs: %q", out)
		}
		g.searchAll()
		if f.entries(t) != 0 {
			t.Error("a search beside calls takes out a new file")
		}
	})
	if len(out) != 2 || f.has("a/.git/config", "evil") || f.there(".mcp.json") {
		t.Errorf("the last call: %q", out)
	}
	f.call(t, g, false, false, func() {
		f.call(t, g, false, false, make)
		w := g.tree(f.dir, false)
		w.mu.Lock()
		for rel := range w.waiting { // simulate the end of the waiting time
			w.waiting[rel] = time.Now().Add(-2 * g.opts.interval)
		}
		w.mu.Unlock()
		if out := f.call(t, g, false, false, func() {}); len(out) != 2 || f.has("a/.git/config", "evil") || f.there(".mcp.json") {
			t.Errorf("another call runs on: %q", out)
		}
	})
	must(t, g.Close())
}

// TestIgnoredDirectory checks that the guard does not search a directory while the configuration permits all changes in
// it.
func TestIgnoredDirectory(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	f.call(t, g, false, false, func() { f.git(t, "init", "-q", "a") })
	f.git(t, "-C", "a", "config", "core.editor", "evil")
	g.Ignore(f.dir)
	g.searchAll()
	if n := f.entries(t); n != 0 {
		t.Errorf("%d entries", n)
	}
	f.call(t, g, false, false, func() {})
	f.git(t, "-C", "a", "config", "core.editor", "evil")
	must(t, g.Close())
	if n := f.entries(t); n != 2 {
		t.Errorf("%d entries", n)
	}
}

func TestLimit(t *testing.T) {
	f := newFixture(t)
	f.limit = 10
	for _, name := range strings.Fields("a b c d e f g h i j k l") {
		must(t, os.Mkdir(filepath.Join(f.dir, name), 0o700))
	}
	g := f.guard()
	out := f.call(t, g, false, false, func() {})
	if len(out) != 1 || !strings.Contains(out[0], "more than 10 directories") {
		t.Errorf("%q", out)
	}
	if out := f.call(t, g, false, false, func() {}); len(out) != 0 {
		t.Errorf("reported twice: %q", out)
	}
	for _, name := range strings.Fields("a b c d e f g h i j k") {
		must(t, os.Remove(filepath.Join(f.dir, name)))
	}
	f.call(t, g, false, false, func() {}) // the tree again has fewer directories than the limit
	out = f.call(t, g, false, false, func() {
		f.git(t, "init", "-q", "l")
		f.git(t, "-C", "l", "config", "core.editor", "evil")
	})
	if f.has("l/.git/config", "evil") {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
}

// TestUnsearchedTargets checks what leads to directories that are not searched, because their tree has more directories
// than the limit: in the tree itself, and from another tree. A target that the search found is harmless.
func TestUnsearchedTargets(t *testing.T) {
	for name, c := range map[string]struct {
		limit       int
		late        bool // whether the other tree exceeds the limit only after the pointers were inspected
		same, other bool // whether what leads to the unsearched directory stays, in the same tree and in the other one
	}{
		"complete": {limit: 1000, same: true, other: true}, "above the limit": {limit: 60}, "above the limit later": {limit: 60, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.limit = c.limit
			second, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			write := func(path, text string) {
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, os.WriteFile(path, []byte(text), 0o600))
			}
			g := f.guard()
			watched := func(do func()) {
				after, err := g.Watch([]Dir{{Path: f.dir}, {Path: second}}, false)
				must(t, err)
				do()
				after()
			}
			steps := []func(){
				func() {
					f.git(t, "init", "-q", "--bare", filepath.Join(second, "found"))
					write(filepath.Join(f.dir, "v/.git"), "gitdir: "+second+"/found\n")
				},
				func() {
					for i := range 80 {
						must(t, os.MkdirAll(filepath.Join(second, fmt.Sprint("d", i)), 0o700))
					}
				},
				func() { write(filepath.Join(second, "g/HEAD"), "ref: refs/heads/x\n") }, // the search has no room for g
			}
			point := func() {
				write(filepath.Join(f.dir, "w/.git"), "gitdir: "+second+"/g\n")
				write(filepath.Join(second, "d0/.git"), "gitdir: ../g\n")
				f.git(t, "init", "-q", "r")
				write(filepath.Join(f.dir, "r/.git/objects/info/alternates"), second+"/g/objects\n")
				f.git(t, "init", "-q", "c")
				write(filepath.Join(f.dir, "c/.git/commondir"), second+"/g\n")
			}
			if c.late {
				steps = append([]func(){point}, steps...)
			} else {
				steps = append(steps, point)
			}
			for _, do := range steps {
				watched(do)
			}
			exists := func(path string) bool {
				_, err := os.Lstat(path)
				return err == nil
			}
			for path, stays := range map[string]bool{"v/.git": true, "w/.git": c.other, "r/.git/objects/info/alternates": c.other, "c/.git/commondir": c.other} {
				if there := exists(filepath.Join(f.dir, path)); there != stays {
					t.Errorf("%s: there %t", path, there)
				}
			}
			if there := exists(filepath.Join(second, "d0/.git")); there != c.same {
				t.Errorf("d0/.git: there %t", there)
			}
			must(t, g.Close())
		})
	}
}

// TestNoQuarantine checks that the guard deletes no content while it cannot write to the quarantine.
func TestNoQuarantine(t *testing.T) {
	f := newFixture(t)
	f.fail = errors.New("no space")
	g := f.guard()
	out := f.call(t, g, false, false, func() {
		f.git(t, "init", "-q", "a")
		must(t, os.WriteFile(filepath.Join(f.dir, "a/.git/hooks/pre-commit"), []byte("evil"), 0o700))
		f.git(t, "-C", "a", "config", "core.editor", "evil")
	})
	if len(out) != 2 || !strings.Contains(out[0]+out[1], "no space") {
		t.Errorf("%q", out)
	}
	left, err := filepath.Glob(filepath.Join(f.dir, "a/.git/hooks/pre-commit.quarantined-*"))
	if err != nil || len(left) != 1 {
		t.Errorf("%q, %v", left, err)
	}
	if out := f.call(t, g, false, false, func() {}); len(out) != 1 { // the setting still exists
		t.Errorf("%q", out)
	}
	f.fail = nil
	if out := f.call(t, g, false, false, func() {}); len(out) != 1 || f.has("a/.git/config", "evil") {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
}

// TestLargeFiles checks that the guard renames files that are too large for the quarantine, and that they can be
// restored.
func TestLargeFiles(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	large := make([]byte, maxRead+1)
	out := f.call(t, g, false, false, func() {
		f.git(t, "init", "-q", "a")
		must(t, os.WriteFile(filepath.Join(f.dir, "a/.git/hooks/pre-commit"), large, 0o700))
		must(t, os.WriteFile(filepath.Join(f.dir, "a/.git/config"), large, 0o600))
	})
	if len(out) != 2 || f.has("a/.git/config", "") || f.has("a/.git/hooks/pre-commit", "") {
		t.Errorf("%q", out)
	}
	all, err := f.store.List()
	must(t, err)
	restore := func() {
		for i := range all {
			must(t, Restore(&all[i]))
			if err := Restore(&all[i]); err == nil {
				t.Error("restored twice")
			}
			all[i].Restored = time.Now()
			must(t, f.store.Update(&all[i]))
		}
	}
	restore()
	out = f.call(t, g, false, false, func() {})
	if len(out) != 0 || !f.has("a/.git/config", "") || !f.has("a/.git/hooks/pre-commit", "") {
		t.Errorf("not restored: %q", out)
	}
	must(t, g.Close())
}

// TestRestoredModes checks that hooks and links keep their modes and targets when they are restored.
func TestRestoredModes(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	hook, link := filepath.Join(f.dir, "a/.git/hooks/pre-commit"), filepath.Join(f.dir, "a/.git/hooks/pre-push")
	f.call(t, g, false, false, func() {
		f.git(t, "init", "-q", "a")
		must(t, os.WriteFile(hook, []byte("text"), 0o600))
		must(t, os.Chmod(hook, 0o751))
		must(t, os.Symlink("pre-commit", link))
	})
	all, err := f.store.List()
	must(t, err)
	for i := range all {
		must(t, Restore(&all[i]))
		all[i].Restored = time.Now()
		must(t, f.store.Update(&all[i]))
	}
	st, err := os.Stat(hook)
	must(t, err)
	to, err := os.Readlink(link)
	must(t, err)
	if len(all) != 2 || st.Mode().Perm() != 0o751 || to != "pre-commit" || !f.has("a/.git/hooks/pre-commit", "text") {
		t.Errorf("%d entries, %v, %q", len(all), st.Mode(), to)
	}
	if out := f.call(t, g, false, false, func() {}); len(out) != 0 {
		t.Errorf("taken out again: %q", out)
	}
	must(t, g.Close())
}

// TestExchangedFiles checks that the guard changes no file outside of the tree while a command repeatedly replaces
// files by links.
func TestExchangedFiles(t *testing.T) {
	f := newFixture(t)
	outside := filepath.Join(t.TempDir(), "outside")
	c := exec.Command("git", "init", "-q", outside)
	must(t, c.Run())
	must(t, os.WriteFile(filepath.Join(outside, ".git/hooks/pre-commit"), []byte("mine"), 0o600))
	const settings = "[core]\n\teditor = evil\n"
	must(t, os.WriteFile(filepath.Join(outside, ".git/config"), []byte(settings), 0o600))
	g := f.guard()
	f.call(t, g, false, false, func() { f.git(t, "init", "-q", "a") })
	// The concurrent functions use directories that are already open. They thus do not follow the links, and neither
	// could a confined command.
	fd := func(name string) int {
		fd, err := unix.Open(filepath.Join(f.dir, name), unix.O_DIRECTORY|unix.O_RDONLY, 0)
		must(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	fds := map[string]int{".": fd("."), "a": fd("a"), "a/.git": fd("a/.git"), "a/.git/hooks": fd("a/.git/hooks")}
	done := make(chan struct{})
	var racers sync.WaitGroup
	race := func(do func()) {
		racers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					do()
				}
			}
		})
	}
	for _, r := range []struct{ dir, name, to string }{
		{".", "a", outside}, {"a", ".git", filepath.Join(outside, ".git")}, {"a/.git", "hooks", filepath.Join(outside, ".git/hooks")}, {"a/.git", "config", filepath.Join(outside, ".git/config")},
	} {
		dir := fds[r.dir]
		link := "link-" + r.name
		race(func() { // create the links again, because the guard removes them
			_ = unix.Symlinkat(r.to, dir, link)
			if unix.Renameat2(dir, link, dir, r.name, unix.RENAME_EXCHANGE) != nil {
				_ = unix.Renameat2(dir, link, dir, r.name, unix.RENAME_NOREPLACE)
			}
		})
	}
	put := func(dir int, name string) {
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			_, _ = unix.Write(fd, []byte(settings))
			_ = unix.Close(fd)
		}
	}
	race(func() { put(fds["a/.git"], "config"); put(fds["a/.git/hooks"], "pre-commit") })
	took := 0
	for range 150 {
		took += len(f.call(t, g, false, false, func() {}))
	}
	close(done)
	racers.Wait()
	must(t, g.Close())
	for name, want := range map[string]string{".git/config": settings, ".git/hooks/pre-commit": "mine"} {
		if b, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(b) != want {
			t.Errorf("%s outside is now %q, %v", name, b, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(outside, ".git"))
	must(t, err)
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.Contains(e.Name(), "quarantined") || strings.HasSuffix(e.Name(), ".lock")
	}) {
		t.Errorf("%v", entries)
	}
	if took == 0 {
		t.Error("nothing was taken out, so nothing was tried")
	}
}
