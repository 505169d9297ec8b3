package commit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/commit"
	"toolhost.dev/plugins/edit/history"
)

// childEnv is the environment variable that makes the test program change files until it is killed.
const childEnv = "COMMIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a temporary workspace together with its state directory.
type place struct {
	dir, root string
	ws        *workspace.Workspace
	*commit.Committer
}

func open(dir string) (*place, error) {
	p := &place{dir: dir, root: dir + "/w"}
	var err error
	if p.ws, err = workspace.Open([]tool.Root{{Path: p.root, Writable: true}}); err == nil {
		err = p.ws.UseJournal(workspace.NewJournal(dir + "/state/writes"))
	}
	p.Committer = &commit.Committer{History: history.Open(dir+"/state", 0)}
	return p, err
}

func newPlace(t *testing.T, files map[string]string) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(dir+"/w", 0o777))
	for name, content := range files {
		must(t, os.WriteFile(dir+"/w/"+name, []byte(content), 0o666))
	}
	p, err := open(dir)
	must(t, err)
	t.Cleanup(func() { _ = p.History.Close() })
	return p
}

// step reads a file and returns a step that replaces the content by the text after. If the text is "-", the step
// removes the file.
func (p *place) step(name, after string) (commit.Step, error) {
	path, err := p.ws.Resolve(p.root, name)
	if err != nil {
		return commit.Step{}, err
	}
	s := commit.Step{Path: path, After: []byte(after), Remove: after == "-"}
	s.Before, err = commit.Current(p.ws, path)
	return s, err
}

func (p *place) commit(ctx context.Context, after ...string) (*commit.Done, error) {
	m := commit.Commit{Session: "s", Tool: "test", Title: "test " + after[0]}
	var paths []workspace.Path
	for i := 0; i < len(after); i += 2 {
		path, err := p.ws.Resolve(p.root, after[i])
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	unlock, err := p.Lock(ctx, p.ws, paths...)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for i := 0; i < len(after); i += 2 {
		s, err := p.step(after[i], after[i+1])
		if err != nil {
			return nil, err
		}
		m.Steps = append(m.Steps, s)
	}
	return p.Apply(ctx, p.ws, m)
}

// holds checks that the workspace contains exactly the files in want, with the same contents.
func (p *place) holds(t *testing.T, want map[string]string) {
	t.Helper()
	got := make(map[string]string)
	must(t, filepath.WalkDir(p.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, _ := os.ReadFile(path)
			got[strings.TrimPrefix(path, p.root+"/")] = string(b)
		}
		return err
	}))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the files are\n%.300q, want\n%.300q", got, want)
	}
}

func (p *place) undoable(t *testing.T) int {
	t.Helper()
	log, err := p.History.Log(t.Context(), "s", "")
	must(t, err)
	return len(log.Done)
}

func TestSeveralFilesAreOneChange(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "a", "b": "b"})
	done, err := p.commit(t.Context(), "a", "A", "b", "-", "new/c", "C")
	must(t, err)
	p.holds(t, map[string]string{"a": "A", "new/c": "C"})
	var ops []tool.Operation
	for _, e := range done.Effects {
		ops = append(ops, e.Operation)
	}
	if fmt.Sprint(ops) != "[modify delete create]" || p.undoable(t) != 1 || done.Lost != "" {
		t.Errorf("%v, %d, %q", ops, p.undoable(t), done.Lost)
	}
}

// TestAllOrNothing checks a change of several files, one of which cannot be written. No file must be changed, and the
// history must contain nothing to undo.
func TestAllOrNothing(t *testing.T) {
	for _, blocked := range []string{"a", "b", "x", "y/z"} {
		t.Run(blocked, func(t *testing.T) {
			before := map[string]string{"a": "a", "b": "b", "x": "x"}
			p := newPlace(t, before)
			must(t, os.Chmod(p.root+"/a", 0o751))
			m := commit.Commit{Session: "s", Tool: "test", Title: "t"}
			for _, s := range [][2]string{{"a", "A"}, {"n", "N"}, {"y/z", "Z"}, {"b", "B"}, {"x", "-"}} {
				step, err := p.step(s[0], s[1])
				must(t, err)
				m.Steps = append(m.Steps, step)
			}
			// Another program changes one of the files after the test has read the files.
			want := map[string]string{"a": "a", "b": "b", "x": "x"}
			must(t, os.MkdirAll(filepath.Dir(p.root+"/"+blocked), 0o777))
			must(t, os.WriteFile(p.root+"/"+blocked, []byte("theirs"), 0o666))
			want[blocked] = "theirs"
			_, err := p.Apply(t.Context(), p.ws, m)
			if e := tool.AsError(err); e == nil || e.Kind != tool.Conflict {
				t.Errorf("%v", err)
			}
			p.holds(t, want)
			if _, err := os.Stat(p.root + "/y"); (err == nil) != (blocked == "y/z") {
				t.Errorf("the directory that was made: %v", err)
			}
			if info, _ := os.Stat(p.root + "/a"); info.Mode().Perm() != 0o751 {
				t.Errorf("the mode is %v", info.Mode())
			}
			if n := p.undoable(t); n != 0 {
				t.Errorf("%d changes can be undone", n)
			}
		})
	}
}

// dying is a context that kills the process at its nth check.
type dying struct {
	context.Context
	left int
}

func (d *dying) Err() error {
	if d.left--; d.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return nil
}

// This list contains the files that a child process changes together. Their contents must always be equal.
var names = []string{"a", "b", "c", "d"}

// child repeatedly changes all files to the same text. If the argument is a number n, child changes the files once, and
// kills its process at the nth check of the context.
func child(what string) error {
	dir, number, _ := strings.Cut(what, "|")
	p, err := open(dir)
	if err != nil {
		return err
	}
	for round := 0; ; round++ {
		ctx := &dying{Context: context.Background()}
		_, _ = fmt.Sscan(number, &ctx.left)
		var after []string
		for _, n := range names {
			after = append(after, n, strings.Repeat(fmt.Sprintf("%s round %d\n", number, round), 200))
		}
		if _, err := p.commit(ctx, after...); err != nil {
			return err
		}
		if number != "" {
			os.Exit(4) // the child ended before the nth check
		}
	}
}

func start(t *testing.T, what string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env, cmd.Stdout = append(os.Environ(), childEnv+"="+what), t.Output()
	must(t, cmd.Start())
	return cmd
}

// afterKill recovers the files as the next process does after a kill. It checks that either all files are changed or
// none is.
func afterKill(t *testing.T, dir string) {
	t.Helper()
	p, err := open(dir)
	must(t, err)
	defer p.History.Close()
	path, err := p.ws.Resolve(p.root, names[len(names)-1])
	must(t, err)
	unlock, err := p.Lock(t.Context(), p.ws, path)
	must(t, err)
	unlock()
	first, err := os.ReadFile(p.root + "/" + names[0])
	must(t, err)
	want := make(map[string]string)
	for _, n := range names {
		want[n] = string(first)
	}
	p.holds(t, want)
	if left, err := p.History.Unfinished(t.Context(), path.String()); err != nil || len(left) > 0 {
		t.Errorf("%d changes are unfinished, %v", len(left), err)
	}
	// The history must agree with the files, so that the last change can be undone.
	log, err := p.History.Log(t.Context(), "s", "")
	must(t, err)
	if len(log.Done) > 0 {
		if hash := history.Content(first, 0).Hash; log.Done[0].Files[0].After.Hash != hash {
			t.Error("the last change of the history is not what the files hold")
		}
	}
}

// TestKilledAtEachMoment kills a process at each moment of a change of four files. The next process must find that
// either all files are changed or none.
func TestKilledAtEachMoment(t *testing.T) {
	for moment := 1; ; moment++ {
		p := newPlace(t, map[string]string{"a": "old", "b": "old", "c": "old", "d": "old"})
		err := start(t, fmt.Sprintf("%s|%d", p.dir, moment)).Wait()
		afterKill(t, p.dir)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 4 {
			if moment < 10 {
				t.Errorf("there are only %d moments", moment-1)
			}
			return
		} else if ok && exit.ExitCode() == 3 {
			t.Fatal("the child failed")
		}
	}
}

func TestKilledUnderLoad(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "old", "b": "old", "c": "old", "d": "old"})
	for range 15 {
		cmd := start(t, p.dir)
		time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() == 3 {
			t.Fatal("the child failed")
		}
		afterKill(t, p.dir)
	}
}

// TestProcessesTakeTurns checks that two processes never change the same files at the same time.
func TestProcessesTakeTurns(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "old", "b": "old", "c": "old", "d": "old"})
	var all []*exec.Cmd
	for range 3 {
		all = append(all, start(t, p.dir))
	}
	time.Sleep(400 * time.Millisecond)
	for _, cmd := range all {
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != -1 { // -1 means that the child did not fail before the kill
			t.Errorf("a child ended with the status %d", code)
		}
	}
	afterKill(t, p.dir)
}

// TestSettleLeavesOthersWork checks that an unfinished change is not reverted if another program has since changed one
// of its files.
func TestSettleLeavesOthersWork(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "old", "b": "old"})
	a, err := p.step("a", "new")
	must(t, err)
	b, err := p.step("b", "new")
	must(t, err)
	must(t, p.History.Begin(t.Context(), &history.Change{Session: "s", Tool: "t", Title: "t", Files: []history.File{
		{Path: a.Path.String(), Before: history.Content([]byte("old"), 0o640), After: history.Content([]byte("new"), 0o666)},
		{Path: b.Path.String(), Before: history.Content([]byte("old"), 0o666), After: history.Content([]byte("new"), 0o666)},
	}}))
	must(t, os.WriteFile(p.root+"/a", []byte("new"), 0o666)) // simulate a process that was killed after this write
	must(t, os.WriteFile(p.root+"/b", []byte("theirs"), 0o666))
	unlock, err := p.Lock(t.Context(), p.ws, b.Path)
	must(t, err)
	unlock()
	p.holds(t, map[string]string{"a": "old", "b": "theirs"})
	if info, _ := os.Stat(p.root + "/a"); info.Mode() != 0o640 {
		t.Errorf("the mode is %v", info.Mode())
	}
	if n := p.undoable(t); n != 0 {
		t.Errorf("%d changes can be undone", n)
	}
}

// TestCutOffRemoval checks that recovery restores a file with its attributes if the process was killed after
// removing the file.
func TestCutOffRemoval(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "old", "b": "old"})
	if err := unix.Setxattr(p.root+"/a", "user.note", []byte("kept"), 0); err != nil {
		t.Skipf("the file system has no extended attributes: %v", err)
	}
	a, err := p.step("a", "-")
	must(t, err)
	b, err := p.step("b", "-")
	must(t, err)
	had, err := p.ws.Attributes(a.Path)
	must(t, err)
	gone := history.Content([]byte("old"), 0o640)
	gone.Attributes = had
	must(t, p.History.Begin(t.Context(), &history.Change{Session: "s", Tool: "t", Title: "t", Files: []history.File{
		{Path: a.Path.String(), Before: gone}, {Path: b.Path.String(), Before: history.Content([]byte("old"), 0o666)},
	}}))
	must(t, os.Remove(p.root+"/a")) // simulate a process that was killed after this removal
	unlock, err := p.Lock(t.Context(), p.ws, b.Path)
	must(t, err)
	unlock()
	p.holds(t, map[string]string{"a": "old", "b": "old"})
	value := make([]byte, 10)
	if n, err := unix.Getxattr(p.root+"/a", "user.note", value); err != nil || string(value[:n]) != "kept" {
		t.Errorf("the attribute is %q: %v", value[:max(n, 0)], err)
	}
}

// TestPutBackRemoval removes two files while another program changes the second file. The removal of the first file
// must be reverted.
func TestPutBackRemoval(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "old", "b": "old"})
	if err := unix.Setxattr(p.root+"/a", "user.note", []byte("kept"), 0); err != nil {
		t.Skipf("the file system has no extended attributes: %v", err)
	}
	m := commit.Commit{Session: "s", Tool: "test", Title: "t"}
	for _, name := range []string{"a", "b"} {
		step, err := p.step(name, "-")
		must(t, err)
		m.Steps = append(m.Steps, step)
	}
	must(t, os.WriteFile(p.root+"/b", []byte("theirs"), 0o666))
	if _, err := p.Apply(t.Context(), p.ws, m); err == nil {
		t.Fatal("somebody's work was removed")
	}
	p.holds(t, map[string]string{"a": "old", "b": "theirs"})
	value := make([]byte, 10)
	if n, err := unix.Getxattr(p.root+"/a", "user.note", value); err != nil || string(value[:n]) != "kept" {
		t.Errorf("the attribute is %q: %v", value[:max(n, 0)], err)
	}
}

// BenchmarkApply measures a change of 10 KB with and without the history.
func BenchmarkApply(b *testing.B) {
	for _, noted := range []bool{false, true} {
		b.Run(map[bool]string{false: "written alone", true: "noted too"}[noted], func(b *testing.B) {
			dir, err := filepath.EvalSymlinks(b.TempDir())
			must(b, err)
			must(b, os.MkdirAll(dir+"/w", 0o777))
			p, err := open(dir)
			must(b, err)
			defer p.History.Close()
			path, err := p.ws.Resolve(p.root, "f")
			must(b, err)
			for i := 0; b.Loop(); i++ {
				text := bytes.Repeat(fmt.Appendf(nil, "%09d\n", i), 1000)
				if noted {
					_, err = p.commit(b.Context(), "f", string(text))
				} else {
					var snap *workspace.Snapshot
					if snap, err = commit.Current(p.ws, path); err == nil {
						_, err = p.ws.WriteFile(b.Context(), path, text, workspace.WriteOptions{Expect: snap})
					}
				}
				must(b, err)
			}
		})
	}
}

// TestMeanwhilePanics checks that the caller gets the panic of Meanwhile, and that the change is still made and
// recorded.
func TestMeanwhilePanics(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "old"})
	step, err := p.step("a", "new")
	must(t, err)
	func() {
		defer func() {
			if got := recover(); got != "meanwhile" {
				t.Errorf("recovered %v", got)
			}
		}()
		_, err := p.Apply(t.Context(), p.ws, commit.Commit{Session: "s", Tool: "test", Title: "t", Steps: []commit.Step{step}, Meanwhile: func() { panic("meanwhile") }})
		t.Errorf("Apply came back: %v", err)
	}()
	p.holds(t, map[string]string{"a": "new"})
	if n := p.undoable(t); n != 1 {
		t.Errorf("%d changes can be undone", n)
	}
}

// TestMeanwhileIsLast checks that Meanwhile is not called if the second of two files cannot be changed.
func TestMeanwhileIsLast(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "old", "b": "old"})
	m := commit.Commit{Session: "s", Tool: "test", Title: "t", Meanwhile: func() { t.Error("not all is made") }}
	for _, name := range []string{"a", "b"} {
		step, err := p.step(name, "new")
		must(t, err)
		m.Steps = append(m.Steps, step)
	}
	must(t, os.WriteFile(p.root+"/b", []byte("theirs"), 0o666))
	if _, err := p.Apply(t.Context(), p.ws, m); err == nil {
		t.Fatal("somebody's work was written over")
	}
	p.holds(t, map[string]string{"a": "old", "b": "theirs"})
}
