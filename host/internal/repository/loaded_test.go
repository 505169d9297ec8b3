//go:build linux

package repository

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// put writes a file of the fixture.
func (f *fixture) put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(f.dir, filepath.Dir(path)), 0o755))
	must(t, os.WriteFile(filepath.Join(f.dir, path), []byte(text), 0o644))
}

func (f *fixture) there(path string) bool {
	_, err := os.Lstat(filepath.Join(f.dir, path))
	return err == nil
}

// TestNewSettings checks which settings of other programs the guard moves to the quarantine.
func TestNewSettings(t *testing.T) {
	f := newFixture(t)
	f.put(t, "a/.vscode/tasks.json", "mine")
	f.put(t, ".mcp.json", "mine")
	g := f.guard()
	out := f.call(t, g, true, false, func() {
		f.put(t, ".vscode/tasks.json", "evil")
		f.put(t, ".vscode/sub/x", "evil")
		f.put(t, "b/c/.mcp.json", "evil")
		f.put(t, "node_modules/x/.vscode/x", "installed")
		must(t, os.Symlink("/etc", filepath.Join(f.dir, "b/.vscode")))
		// Replace the file as an editor does when it saves.
		f.put(t, "new", "saved")
		must(t, os.Rename(filepath.Join(f.dir, "new"), filepath.Join(f.dir, ".mcp.json")))
	})
	if len(out) != 3 || !strings.Contains(strings.Join(out, "\n"), f.dir+"/.vscode with 2 files was moved to the quarantine: programs such as") || f.entries(t) != 4 {
		t.Errorf("%d entries, %q", f.entries(t), out)
	}
	for path, want := range map[string]bool{
		".vscode": false, "b/c/.mcp.json": false, "b/c": true, "b/.vscode": false, "a/.vscode/tasks.json": true, ".mcp.json": true, "node_modules/x/.vscode/x": true,
	} {
		if f.there(path) != want {
			t.Errorf("%s exists: %v", path, !want)
		}
	}
	// A moved directory must keep its settings. A new directory at the old path must not inherit them.
	out = f.call(t, g, true, false, func() {
		must(t, os.Rename(filepath.Join(f.dir, "a"), filepath.Join(f.dir, "moved")))
		f.put(t, "a/.vscode/tasks.json", "evil")
	})
	if len(out) != 1 || f.there("a/.vscode") || !f.has("moved/.vscode/tasks.json", "mine") {
		t.Errorf("%q", out)
	}
	// If a setting was removed and appears again, it must count as unknown.
	must(t, os.Remove(filepath.Join(f.dir, ".mcp.json")))
	f.call(t, g, true, false, func() {})
	out = f.call(t, g, true, true, func() { f.put(t, ".mcp.json", "evil") }) // the plugin is allowed to write settings of git, but not this file
	if len(out) != 1 || f.there(".mcp.json") {
		t.Errorf("%q", out)
	}
	must(t, g.Close())
}

// TestRestoredSettings checks that restored settings stay.
func TestRestoredSettings(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	f.call(t, g, true, false, func() { f.put(t, "a/.vscode/sub/tasks.json", "good") })
	all, err := f.store.List()
	must(t, err)
	if len(all) != 1 || f.there("a/.vscode") {
		t.Fatalf("%+v", all)
	}
	must(t, Restore(&all[0]))
	all[0].Restored = time.Now()
	must(t, f.store.Update(&all[0]))
	if out := f.call(t, g, true, false, func() {}); len(out) != 0 || !f.has("a/.vscode/sub/tasks.json", "good") {
		t.Errorf("%q", out)
	}
	// A directory with too many files must be renamed instead of being read.
	out := f.call(t, g, true, false, func() {
		for i := range maxLoaded + 1 {
			f.put(t, fmt.Sprintf(".vscode/%d", i), "evil")
		}
	})
	all, err = f.store.List()
	must(t, err)
	if len(out) != 1 || f.there(".vscode") || len(all) != 2 || all[1].Left == "" {
		t.Fatalf("%q, %+v", out, all)
	}
	must(t, Restore(&all[1]))
	if !f.there(".vscode/7") {
		t.Error("the directory was not restored")
	}
	must(t, g.Close())
}

// TestSettingsOfPersons checks that settings stay if they appear while no call runs. Settings that appear during a call
// must not stay.
func TestSettingsOfPersons(t *testing.T) {
	f := newFixture(t)
	f.put(t, "a/file", "")
	g := f.guard()
	f.call(t, g, true, false, func() {})
	f.put(t, ".vscode/tasks.json", "mine")
	if out := f.call(t, g, true, false, func() {}); len(out) != 0 || !f.there(".vscode/tasks.json") {
		t.Errorf("at the top: %q", out)
	}
	f.put(t, "a/.vscode/tasks.json", "mine")
	g.searchAll()
	if out := f.call(t, g, true, false, func() {}); len(out) != 0 || !f.there("a/.vscode/tasks.json") {
		t.Errorf("below: %q", out)
	}
	out := f.call(t, g, true, false, func() {
		f.put(t, ".mcp.json", "evil")
		f.put(t, "b/.vscode/tasks.json", "evil")
		g.searchAll() // this search runs during a call
		if inner := f.call(t, g, true, false, func() {}); len(inner) != 0 {
			t.Errorf("the end of another call takes out %q", inner)
		}
	})
	if len(out) != 2 || f.there(".mcp.json") || f.there("b/.vscode") {
		t.Errorf("during a call: %q", out)
	}
	must(t, g.Close())
}

// TestClonedSettings checks that the settings of a new repository are kept and reported, even if a search runs while
// git is still writing them. Settings that appear later must not be kept.
func TestClonedSettings(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	out := f.call(t, g, true, false, func() {
		f.put(t, "c/d/.git/HEAD", "ref: refs/heads/main")
		g.searchAll()
		f.put(t, "c/d/.vscode/tasks.json", "theirs")
		f.put(t, "c/d/e/.mcp.json", "theirs")
		f.put(t, "c/.mcp.json", "evil")
	})
	if len(out) != 2 || !strings.Contains(out[0], f.dir+"/c/d is a new repository with .vscode, e/.mcp.json. Editors") || !strings.Contains(out[1], "/c/.mcp.json was moved") {
		t.Errorf("%q", out)
	}
	for path, want := range map[string]bool{"c/d/.vscode/tasks.json": true, "c/d/e/.mcp.json": true, "c/.mcp.json": false} {
		if f.there(path) != want {
			t.Errorf("%s exists: %v", path, !want)
		}
	}
	out = f.call(t, g, true, false, func() {
		f.put(t, "c/d/.mcp.json", "evil")
		f.put(t, "old/.vscode/tasks.json", "evil")
	})
	if len(out) != 2 || f.there("c/d/.mcp.json") {
		t.Errorf("a repository that is not new any more: %q", out)
	}
	out = f.call(t, g, true, false, func() { // a repository in a directory that existed before
		f.put(t, "old/.git/HEAD", "ref: refs/heads/main")
		f.put(t, "old/.vscode/tasks.json", "evil")
	})
	if len(out) != 1 || f.there("old/.vscode") {
		t.Errorf("an old directory: %q", out)
	}
	must(t, g.Close())
}
