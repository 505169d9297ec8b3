package branch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClean checks which branches are removed. Branches with unapplied changes, branches in use and young branches must
// stay. A directory without a record must stay if it contains files.
func TestClean(t *testing.T) {
	s, b, _, _ := begun(t) // this branch has changes that are not applied
	old := time.Now().Add(-48 * time.Hour)
	age := func(path string) {
		t.Helper()
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"applied", "young", "used", PreviewPrefix + "old"} {
		made, err := s.Make("", b.Base, name, Backend{})
		if err != nil {
			t.Fatal(err)
		}
		if made.Created = old; name == "young" {
			made.Created = time.Now()
		}
		if made.IsPreview() {
			files(t, made.Layer(), map[string]string{"f": "x"})
		}
		if err := made.save(); err != nil {
			t.Fatal(err)
		}
		if name != "young" {
			age(filepath.Join(made.dir, recordFile))
		}
		if name == "used" {
			lock, err := made.lock()
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
		}
	}
	b.Created = old
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	age(filepath.Join(b.dir, recordFile))
	for _, name := range []string{"empty@1/upper/d", "files@1/upper/d", "recent@1/upper", ".new-1/upper"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "files@1/upper/d/f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty@1", "files@1", ".new-1"} {
		age(filepath.Join(s.Dir, name))
	}
	if err := s.Clean(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	var left []string
	all, err := s.List()
	for _, o := range all {
		left = append(left, o.Name)
	}
	if want := []string{"b", "used", "young"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q are left, want %q (%v)", left, want, err)
	}
	for name, want := range map[string]bool{"empty@1": false, "files@1": true, "recent@1": true, ".new-1": false, dustbinDir: false} {
		if _, err := os.Stat(filepath.Join(s.Dir, name)); errors.Is(err, os.ErrNotExist) == want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if orphans, err := s.Orphans(); err != nil || len(orphans) != 2 {
		t.Errorf("%+v %v", orphans, err)
	}
}

// TestCleanLooksAgain checks that Clean keeps a branch that a session changes after Clean has selected it.
func TestCleanLooksAgain(t *testing.T) {
	s, begun, _, _ := begun(t)
	b, err := s.Make("", begun.Base, "unchanged", Backend{})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	if !b.finished(time.Millisecond) {
		t.Fatal("Clean does not want to remove the branch, so this test shows nothing")
	}
	used, err := b.lock()
	if err != nil {
		t.Fatal(err)
	}
	cleaned := make(chan error)
	go func() { cleaned <- s.Clean(time.Millisecond) }()
	time.Sleep(forkTime / 4) // until Clean waits for the lock
	files(t, b.Layer(), map[string]string{"f": "x"})
	if err := errors.Join(used.Close(), <-cleaned); err != nil {
		t.Error(err)
	}
	if _, err := s.Find("", b.Base, b.Name); err != nil {
		t.Error(err)
	}
}

// TestClockSetBack checks that nothing of the workspace is replaced without a decision after the clock was set back.
// What the workspace changed then has a time from before the branch. New paths, and files whose original text is known,
// are no conflict.
func TestClockSetBack(t *testing.T) {
	for what, set := range map[string]func(*Branch){
		"in this boot":           func(b *Branch) { b.Clock.Offset += 10e9 },
		"in an earlier boot":     func(b *Branch) { b.Clock.Boot, b.Since = "earlier", b.Since+3600e9 },
		"noticed by a mount":     func(b *Branch) { b.Clock.Offset += 10e9; b.watchClock(); b.Clock = nil },
		"not at all":             func(*Branch) {},
		"by less than a second":  func(b *Branch) { b.Clock.Offset += 9e8 },
		"before an earlier boot": func(b *Branch) { b.Clock.Boot, b.Clock.Offset = "earlier", b.Clock.Offset+10e9 },
	} {
		t.Run(what, func(t *testing.T) {
			back := !strings.Contains(what, "not at all") && !strings.Contains(what, "less") && !strings.Contains(what, "before")
			s, b, after, before := begun(t)
			if b.Clock == nil {
				t.Fatal("a new branch does not know the clock")
			}
			set(b)
			if err := b.save(); err != nil {
				t.Fatal(err)
			}
			_, err := s.Apply(b, Selection{})
			if back {
				var conflict *ConflictError
				if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "the clock of the machine was set back") {
					t.Fatalf("the apply: %v", err)
				}
				paths := []string{}
				for _, c := range conflict.Conflicts {
					paths = append(paths, c.Path)
				}
				for _, path := range []string{"edit", "gone", "dir/gone", "link", "mode", "tree", "turn", "turned", "deep"} {
					if !slices.Contains(paths, path) {
						t.Errorf("%s is no conflict, only %q are", path, paths)
					}
				}
				if slices.Contains(paths, "new") || slices.Contains(paths, "newdir") {
					t.Errorf("new paths are conflicts: %q", paths)
				}
				differ(t, "refused", snapshot(t, b.Base), before)
				_, err = s.Apply(b, Selection{Ours: []string{"."}})
			}
			if err != nil {
				t.Fatal(err)
			}
			differ(t, "applied", snapshot(t, b.Base), after)
			if b.clockSetBack() {
				t.Error("the clock is still distrusted, although the branch begins anew")
			}
			b.Clock.Offset += 10e9
			if err := b.save(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Revert(b); err == nil || !strings.Contains(err.Error(), "the clock of the machine was set back") {
				t.Errorf("a revert after the clock was set back: %v", err)
			}
		})
	}
}

// TestCheckName checks which texts can be names of branches.
func TestCheckName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "0": true, "fix-1_b.c": true, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
		"": false, ".a": false, "-a": false, "_a": false, "A": false, "aB": false, "a/b": false, "a b": false, "ä": false, "a\n": false, "a\x00": false,
	} {
		if err := CheckName(name); (err == nil) != want {
			t.Errorf("%q: %v, want valid %t", name, err, want)
		}
	}
}
