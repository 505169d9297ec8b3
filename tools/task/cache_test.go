package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/tools/project"
)

// cacheTask returns a task for a repository with the file "lock", and its output.
func cacheTask(t *testing.T, cache string) (*task, *strings.Builder) {
	t.Helper()
	out := new(strings.Builder)
	r := &task{Project: &project.Project{Root: t.TempDir()}, out: out, getenv: func(name string) string {
		return map[string]string{"TOOLHOST_BUILD_CACHE": cache}[name]
	}}
	write(t, r.Path("lock"), "a")
	return r, out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCacheEntry checks that two clones install once at the same time, that a failed installation is repeated, that
// another lock file is another installation, and that entries that nobody uses are removed.
func TestCacheEntry(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	a, _ := cacheTask(t, cache)
	b, _ := cacheTask(t, cache)
	entry, err := a.cacheEntry("x", "lock")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.once(entry, func(dir string) error { write(t, filepath.Join(dir, "half"), ""); return errors.New("no network") }); err == nil || err.Error() != "no network" {
		t.Fatal(err)
	}
	old := filepath.Join(cache, "old")
	write(t, old, "")
	if err := os.Chtimes(old, time.Now(), time.Now().Add(-2*unused)); err != nil {
		t.Fatal(err)
	}
	var installed int
	var all sync.WaitGroup
	for _, r := range []*task{a, b, a, b} {
		all.Go(func() {
			entry, err := r.cacheEntry("x", "lock")
			if err == nil {
				err = r.once(entry, func(dir string) error { installed++; return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o600) })
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if installed != 1 {
		t.Errorf("installed %d times", installed)
	}
	if list, err := filepath.Glob(entry + "/*"); err != nil || len(list) != 1 || filepath.Base(list[0]) != "whole" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the unused entry: %v", err)
	}
	for range 2 {
		if err := b.link("installed", entry); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(b.Path("installed/whole")); err != nil {
		t.Error(err)
	}
	write(t, b.Path("lock"), "b")
	if other, err := b.cacheEntry("x", "lock"); err != nil || other == entry {
		t.Errorf("another lock file has the entry %s, %v", other, err)
	}
}

// TestPassed checks that a check runs until it has passed, and again after a file has changed, is new, or has another
// mode.
func TestPassed(t *testing.T) {
	t.Parallel()
	r, out := cacheTask(t, t.TempDir())
	if b, err := exec.CommandContext(t.Context(), "git", "init", "-q", r.Root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	var result error
	runs := func() bool {
		t.Helper()
		ran := false
		if err := r.passed("check-x", nil, func(*task) error { ran = true; return result }); !errors.Is(err, result) {
			t.Errorf("returned %v, not %v", err, result)
		}
		return ran
	}
	result = errors.New("a finding")
	for range 2 {
		if !runs() {
			t.Error("a check that failed did not run again")
		}
	}
	result = nil
	if !runs() || runs() {
		t.Error("a check that passed ran again, or one that failed did not run again")
	}
	if want := "check-x: passed before with these files"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in %s", want, out)
	}
	for what, change := range map[string]func(){
		"content": func() { write(t, r.Path("lock"), "b") },
		"new":     func() { write(t, r.Path("new"), "") },
		"mode":    func() { _ = os.Chmod(r.Path("lock"), 0o755) },
		"link":    func() { _ = os.Symlink("lock", r.Path("link")) },
	} {
		if change(); !runs() || runs() {
			t.Errorf("%s: the check did not run once", what)
		}
	}
	write(t, r.Path(".gitignore"), "bin\n")
	runs()
	write(t, r.Path("bin"), "")
	if runs() {
		t.Error("the check ran because of an ignored file")
	}
}

// TestManyEntries checks that only the newest of many entries with the same name stay, and those that can be in use.
func TestManyEntries(t *testing.T) {
	t.Parallel()
	cache, now := t.TempDir(), time.Now()
	add := func(name string, age time.Duration) {
		path := filepath.Join(cache, name)
		if err := errors.Join(os.Mkdir(path, 0o755), os.Chtimes(path, now, now.Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	add("npm-sdk-0", 2*idle)
	for i := range 2 * spareEntries {
		add(fmt.Sprintf("programs-%02d", i), 2*idle+time.Duration(i)*time.Minute)
	}
	add("programs-used", idle/2)
	if err := removeUnused(cache, now); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := []string{"npm-sdk-0", "programs-00", "programs-01", "programs-02", "programs-03", "programs-04", "programs-05", "programs-06", "programs-used"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
