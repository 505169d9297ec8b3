package workspace_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// content checks the content of a file. It also checks that the directory contains no other files, except those in the
// argument "beside".
func content(t *testing.T, path, want string, beside ...string) {
	t.Helper()
	got, err := os.ReadFile(path)
	must(t, err)
	if string(got) != want {
		t.Errorf("%s has %.60q, want %.60q", path, got, want)
	}
	names(t, filepath.Dir(path), append(beside, filepath.Base(path))...)
}

func names(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		found := false
		for _, w := range want {
			found = found || e.Name() == w
		}
		if !found {
			t.Errorf("%s was left in %s", e.Name(), dir)
		}
	}
	if len(entries) < len(want) {
		t.Errorf("%s has %v, want %v", dir, entries, want)
	}
}

func TestWriteNewFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := tree(t)
	w := space(t, dir)
	p := resolve(t, w, dir, "a/b/new.txt")
	if _, err := w.WriteFile(t.Context(), p, []byte("one\n"), workspace.WriteOptions{}); kind(err) != tool.NotFound {
		t.Errorf("without the directory: %v", err)
	}
	names(t, dir)
	done, err := w.WriteFile(t.Context(), p, []byte("one\n"), workspace.WriteOptions{Parents: true})
	must(t, err)
	content(t, p.String(), "one\n")
	info, _ := os.Stat(p.String())
	if info.Mode() != 0o640 {
		t.Errorf("the mode is %v, the umask leaves -rw-r-----", info.Mode())
	}
	state := tool.FileState{Path: p.String(), Size: 4, ModTime: info.ModTime(), Hash: sha256.Sum256([]byte("one\n"))}
	if !done.Created || done.InPlace != "" || done.State != state {
		t.Errorf("got %+v", done)
	}
	if e := done.Effect(); e.Operation != tool.OpCreate || e.HashBefore != nil {
		t.Errorf("effect %+v", e)
	}
	exe := resolve(t, w, dir, "run")
	if _, err := w.WriteFile(t.Context(), exe, nil, workspace.WriteOptions{Perm: 0o777}); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(dir + "/run"); info.Mode() != 0o750 {
		t.Errorf("the mode is %v", info.Mode())
	}
}

func TestWriteOverAFile(t *testing.T) {
	dir := tree(t, "f")
	must(t, os.Chmod(dir+"/f", 0o754|fs.ModeSetuid|fs.ModeSticky))
	w := space(t, dir)
	p := resolve(t, w, dir, "f")
	before, err := w.ReadFile(p, 100)
	must(t, err)
	done, err := w.WriteFile(t.Context(), p, []byte("new"), workspace.WriteOptions{Expect: before})
	must(t, err)
	content(t, dir+"/f", "new")
	info, _ := os.Stat(dir + "/f")
	if info.Mode() != 0o754|fs.ModeSetuid|fs.ModeSticky {
		t.Errorf("the mode is %v", info.Mode())
	}
	if e := done.Effect(); done.Created || done.InPlace != "" || e.Operation != tool.OpModify || *e.HashBefore != before.Hash() || !e.File.ModTime.Equal(info.ModTime()) {
		t.Errorf("got %+v, effect %+v", done, e)
	}
	if _, err := w.WriteFile(t.Context(), p, nil, workspace.WriteOptions{New: true}); kind(err) != tool.Conflict || !errors.Is(err, fs.ErrExist) {
		t.Errorf("New on an existing file: %v", err)
	}
	content(t, dir+"/f", "new")
}

// TestExpect checks that only different bytes are a conflict. A different modification time, or another file with
// the same bytes, is no conflict.
func TestExpect(t *testing.T) {
	const old = "old content"
	for name, c := range map[string]struct {
		change   func(path string) error
		conflict bool
	}{
		"nothing":        {func(string) error { return nil }, false},
		"touched":        {func(p string) error { return os.Chtimes(p, time.Time{}, time.Now().Add(time.Hour)) }, false},
		"mode":           {func(p string) error { return os.Chmod(p, 0o600) }, false},
		"same bytes":     {func(p string) error { return os.WriteFile(p, []byte(old), 0o666) }, false},
		"replaced, same": {func(p string) error { return replaceFile(p, old) }, false},
		"other size":     {func(p string) error { return os.WriteFile(p, []byte("other"), 0o666) }, true},
		"replaced":       {func(p string) error { return replaceFile(p, "OLD CONTENT") }, true},
		"removed":        {os.Remove, true},
		"became a link": {func(p string) error {
			return errors.Join(os.Rename(p, p+"2"), os.Symlink(p+"2", p))
		}, true},
		"same size, time and inode": {func(p string) error {
			info, err := os.Stat(p)
			return errors.Join(err, os.WriteFile(p, []byte("OLD CONTENT"), 0o666), os.Chtimes(p, time.Time{}, info.ModTime()))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			path := dir + "/f"
			must(t, os.WriteFile(path, []byte(old), 0o666))
			w := space(t, dir)
			p := resolve(t, w, dir, "f")
			s, err := w.ReadFile(p, 100)
			must(t, err)
			must(t, c.change(path))
			after, _ := os.ReadFile(path)
			_, err = w.WriteFile(t.Context(), p, []byte("mine"), workspace.WriteOptions{Expect: s})
			if c.conflict {
				if kind(err) != tool.Conflict || !strings.Contains(err.Error(), "Read the file again") {
					t.Errorf("got %v", err)
				}
			} else {
				must(t, err)
				after = []byte("mine")
			}
			if got, _ := os.ReadFile(path); !bytes.Equal(got, after) {
				t.Errorf("the file has %q, want %q", got, after)
			}
			if left, _ := filepath.Glob(dir + "/.toolhost*"); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func replaceFile(path, text string) error {
	return errors.Join(os.WriteFile(path+"~", []byte(text), 0o666), os.Rename(path+"~", path))
}

func TestWriteFollowsLinks(t *testing.T) {
	dir := tree(t, "a/f", "l -> a/f", "abs -> $/a/f", "new -> a/made")
	w := space(t, dir)
	for _, name := range []string{"l", "abs", "new"} {
		if _, err := w.WriteFile(t.Context(), resolve(t, w, dir, name), []byte(name), workspace.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if info, _ := os.Lstat(filepath.Join(dir, name)); info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is a link no more", name)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != name {
			t.Errorf("%s leads to %q", name, got)
		}
	}
	names(t, dir+"/a", "f", "made")
}

func TestReadOnlyRoot(t *testing.T) {
	dir := tree(t, "w/", "ro/f", "w/l -> ../ro/f")
	w := space(t, dir+"/w", dir+"/ro:ro")
	for _, path := range []string{"../ro/f", "../ro/new", "l"} {
		p := resolve(t, w, dir+"/w", path)
		_, err := w.WriteFile(t.Context(), p, []byte("x"), workspace.WriteOptions{Parents: true})
		if kind(err) != tool.PermissionDenied || !strings.Contains(err.Error(), dir+"/w (read-write)") {
			t.Errorf("write %s: %v", path, err)
		}
		if err := w.Remove(t.Context(), p, nil); kind(err) != tool.PermissionDenied {
			t.Errorf("remove %s: %v", path, err)
		}
		if err := w.MkdirAll(p); kind(err) != tool.PermissionDenied {
			t.Errorf("make %s: %v", path, err)
		}
	}
	content(t, dir+"/ro/f", "ro/f")
}

func TestHardLinksStay(t *testing.T) {
	for name, text := range map[string]string{"shorter": "s", "longer": strings.Repeat("long ", 100), "empty": ""} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, "f")
			must(t, os.Link(dir+"/f", dir+"/twin"))
			must(t, os.Chmod(dir+"/f", 0o750|fs.ModeSetgid))
			w := space(t, dir)
			p := resolve(t, w, dir, "f")
			s, err := w.ReadFile(p, 100)
			must(t, err)
			done, err := w.WriteFile(t.Context(), p, []byte(text), workspace.WriteOptions{Expect: s})
			must(t, err)
			if !strings.Contains(done.InPlace, "2 hard links") {
				t.Errorf("InPlace is %q", done.InPlace)
			}
			content(t, dir+"/f", text, "twin")
			content(t, dir+"/twin", text, "f")
			if info, _ := os.Stat(dir + "/f"); info.Mode() != 0o750|fs.ModeSetgid || !info.ModTime().Equal(done.State.ModTime) {
				t.Errorf("mode %v, time %v; reported %v", info.Mode(), info.ModTime(), done.State.ModTime)
			}
			must(t, os.WriteFile(dir+"/twin", []byte("through the other name"), 0o666))
			if _, err := w.WriteFile(t.Context(), p, []byte("x"), workspace.WriteOptions{Expect: s}); kind(err) != tool.Conflict {
				t.Errorf("a change through the other name: %v", err)
			}
		})
	}
}

// TestConcurrentWriters checks that if several writers have read the same content, exactly one of them succeeds.
func TestConcurrentWriters(t *testing.T) {
	dir := tree(t, "f")
	must(t, os.Link(dir+"/f", dir+"/g")) // a file with two names is written in place in the first rounds
	const writers, rounds = 8, 12
	for round := range rounds {
		if round == rounds/2 {
			must(t, os.Remove(dir+"/g"))
		}
		var won atomic.Int32
		var winner atomic.Value
		var wg sync.WaitGroup
		ready := make(chan struct{})
		for i := range writers {
			w := space(t, dir) // all workspaces of a process share its locks
			p := resolve(t, w, dir, "f")
			s, err := w.ReadFile(p, 1<<20)
			must(t, err)
			wg.Go(func() {
				<-ready
				text := strings.Repeat(fmt.Sprintf("round %d writer %d\n", round, i), 1000+i)
				switch _, err := w.WriteFile(context.Background(), p, []byte(text), workspace.WriteOptions{Expect: s}); {
				case err == nil:
					won.Add(1)
					winner.Store(text)
				case kind(err) != tool.Conflict:
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		close(ready)
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d writers succeeded", won.Load())
		}
		if got, _ := os.ReadFile(dir + "/f"); string(got) != winner.Load() {
			t.Fatalf("the file is not what the winner wrote: %.40q", got)
		}
	}
	names(t, dir, "f")
}

// meddling is a context that calls the function "do" at the nth check of the context. Each check is a different moment
// of a write.
type meddling struct {
	context.Context
	left int
	do   func()
}

func (m *meddling) Err() error {
	if m.left--; m.left == 0 {
		m.do()
	}
	return nil
}

// TestAnotherProgramWritesMeanwhile changes or replaces a file at each moment of a write. The other program's version
// must stay, and the write must fail.
func TestAnotherProgramWritesMeanwhile(t *testing.T) {
	for name, meddle := range map[string]func(path string) error{
		"replaced":             func(p string) error { return replaceFile(p, "THEIRS") },
		"written":              func(p string) error { return os.WriteFile(p, []byte("THEIRS"), 0o666) },
		"appended":             func(p string) error { return appendTo(p, "THEIRS") },
		"became two":           func(p string) error { return errors.Join(replaceFile(p, "THEIRS"), os.Link(p, p+"2")) },
		"created, not renewed": func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, []byte("THEIRS"), 0o666)) },
	} {
		for _, old := range []string{"before", ""} { // "": no file yet
			if name == "created, not renewed" && old == "" {
				meddle = func(p string) error { return os.WriteFile(p, []byte("THEIRS"), 0o666) }
			}
			for moment := 1; ; moment++ {
				dir := tree(t)
				w, opt := space(t, dir), workspace.WriteOptions{New: old == ""}
				if old != "" {
					must(t, os.WriteFile(dir+"/f", []byte(old), 0o666))
				}
				p := resolve(t, w, dir, "f")
				if old != "" {
					s, err := w.ReadFile(p, 100)
					must(t, err)
					opt.Expect = s
				}
				ctx := &meddling{t.Context(), moment, func() { must(t, meddle(dir+"/f")) }}
				_, err := w.WriteFile(ctx, p, []byte("OURS"), opt)
				if ctx.left > 0 { // the write ended before this check
					if must(t, err); moment < 4 {
						t.Errorf("%s: only %d moments", name, moment-1)
					}
					break
				}
				if kind(err) != tool.Conflict {
					t.Errorf("%s at moment %d of %q: %v", name, moment, old, err)
				}
				if got, _ := os.ReadFile(dir + "/f"); !strings.HasSuffix(string(got), "THEIRS") {
					t.Errorf("%s at moment %d of %q: the file has %q", name, moment, old, got)
				}
				if left, _ := filepath.Glob(dir + "/.toolhost*"); left != nil {
					t.Errorf("left: %v", left)
				}
			}
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestLock(t *testing.T) {
	dir := tree(t, "n")
	must(t, os.WriteFile(dir+"/n", []byte("0"), 0o666))
	w := space(t, dir)
	a, b := resolve(t, w, dir, "n"), resolve(t, w, dir, "other")
	var wg sync.WaitGroup
	for i := range 8 {
		paths := []workspace.Path{a, b, a}
		if i%2 == 0 {
			paths = []workspace.Path{b, a}
		}
		wg.Go(func() {
			for range 5 {
				unlock, err := w.Lock(context.Background(), paths...)
				if err != nil {
					t.Error(err)
					return
				}
				s, err := w.ReadFile(a, 100)
				if err != nil {
					t.Error(err)
				}
				var n int
				_, _ = fmt.Sscan(string(s.Data), &n)
				if _, err := w.WriteFile(context.Background(), a, fmt.Append(nil, n+1), workspace.WriteOptions{Expect: s}); err != nil {
					t.Error(err)
				}
				unlock()
			}
		})
	}
	wg.Wait()
	content(t, dir+"/n", "40")
	unlock, err := w.Lock(t.Context(), a)
	must(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Lock(ctx, b, a); !errors.Is(err, context.Canceled) {
		t.Errorf("a lock that is held, with a canceled context: %v", err)
	}
	unlockB, err := w.Lock(t.Context(), b) // the failed Lock must release this path
	must(t, err)
	unlockB()
}

func TestCanceledWrite(t *testing.T) {
	dir := tree(t, "f")
	w := space(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"f", "new"} {
		if _, err := w.WriteFile(ctx, resolve(t, w, dir, name), make([]byte, 9<<20), workspace.WriteOptions{}); kind(err) != tool.Canceled {
			t.Errorf("%s: %v", name, err)
		}
	}
	content(t, dir+"/f", "f")
}

func TestRemove(t *testing.T) {
	dir := tree(t, "f", "g")
	w := space(t, dir)
	p := resolve(t, w, dir, "f")
	s, err := w.ReadFile(p, 100)
	must(t, err)
	must(t, os.WriteFile(dir+"/f", []byte("F"), 0o666))
	if err := w.Remove(t.Context(), p, s); kind(err) != tool.Conflict {
		t.Errorf("a changed file: %v", err)
	}
	content(t, dir+"/f", "F", "g")
	s, err = w.ReadFile(p, 100)
	must(t, err)
	must(t, w.Remove(t.Context(), p, s))
	must(t, w.Remove(t.Context(), resolve(t, w, dir, "g"), nil))
	names(t, dir)
	if err := w.Remove(t.Context(), p, nil); kind(err) != tool.NotFound {
		t.Errorf("a missing file: %v", err)
	}
}

func TestMkdirAll(t *testing.T) {
	dir := tree(t, "f")
	w := space(t, dir)
	must(t, w.MkdirAll(resolve(t, w, dir, "a/b/c")))
	must(t, w.MkdirAll(resolve(t, w, dir, "a/b/c")))
	must(t, w.MkdirAll(resolve(t, w, dir, ".")))
	if info, err := os.Stat(dir + "/a/b/c"); err != nil || !info.IsDir() {
		t.Error(err)
	}
	for _, path := range []string{"f", "f/x", "f/x/y"} {
		if err := w.MkdirAll(resolve(t, w, dir, path)); kind(err) != tool.InvalidArguments {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestExactMode checks that Mode overrides the file's own mode and the umask.
func TestExactMode(t *testing.T) {
	dir := tree(t, "f", "linked")
	must(t, os.Link(dir+"/linked", dir+"/twin"))
	must(t, os.Chmod(dir+"/f", 0o600))
	must(t, os.Chmod(dir+"/linked", 0o600))
	w := space(t, dir)
	want := os.FileMode(0o777) | os.ModeSetuid | os.ModeSticky
	for _, name := range []string{"f", "linked", "fresh"} {
		_, err := w.WriteFile(t.Context(), resolve(t, w, dir, name), []byte("x"), workspace.WriteOptions{Mode: &want})
		must(t, err)
		if info, err := os.Stat(dir + "/" + name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestRemoveDir(t *testing.T) {
	dir := tree(t, "empty/", "full/f", "f")
	w := space(t, dir, dir+"/full:ro")
	must(t, w.RemoveDir(resolve(t, w, dir, "empty")))
	for _, name := range []string{"full", "f", ".", "none"} {
		if err := w.RemoveDir(resolve(t, w, dir, name)); kind(err) == "" {
			t.Errorf("%s was removed", name)
		}
	}
	names(t, dir, "full", "f")
	must(t, os.Mkdir(dir+"/d", 0o777))
	must(t, os.WriteFile(dir+"/d/f", nil, 0o666))
	if err := w.RemoveDir(resolve(t, w, dir, "d")); kind(err) != tool.ExecutionFailed {
		t.Errorf("a directory with entries: %v", err)
	}
}

// TestReady checks that a file changes only after Ready succeeds.
func TestReady(t *testing.T) {
	for _, other := range []string{"", "other name"} { // a file with a second name is written in place
		dir := tree(t)
		w := space(t, dir)
		file, beside := filepath.Join(dir, "f"), []string{}
		must(t, os.WriteFile(file, []byte("old"), 0o600))
		if other != "" {
			must(t, os.Link(file, filepath.Join(dir, other)))
			beside = append(beside, other)
		}
		for _, fails := range []error{errors.New("not now"), nil} {
			_, err := w.WriteFile(t.Context(), resolve(t, w, dir, "f"), []byte("new"), workspace.WriteOptions{Ready: func() error {
				if b, err := os.ReadFile(file); err != nil || string(b) != "old" {
					t.Errorf("it has changed already: %q %v", b, err)
				}
				return fails
			}})
			if (err == nil) != (fails == nil) || fails != nil && !strings.Contains(err.Error(), "not now") {
				t.Errorf("%v", err)
			}
			content(t, file, map[bool]string{true: "new", false: "old"}[fails == nil], beside...)
		}
	}
}
