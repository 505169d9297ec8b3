package workspace_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// childEnv is an environment variable. If it is set, this test program writes files until it is killed.
const childEnv = "WORKSPACE_TEST_CHILD"

// children are functions that a child process can run instead of the tests. They must not return.
var children = map[string]func(w *workspace.Workspace, dir string){}

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		child(what)
	}
	os.Exit(m.Run())
}

// child writes files with a journal in the directory that the argument contains. If the argument also contains a number
// n, child kills its process at the nth check of a write's context. Otherwise it writes until it is killed.
func child(what string) {
	dir, number, _ := strings.Cut(what, "|")
	w, err := workspace.Open([]tool.Root{{Path: dir + "/w", Writable: true}})
	if err == nil {
		err = w.UseJournal(workspace.NewJournal(dir + "/journal"))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	if write := children[number]; write != nil {
		write(w, dir+"/w")
	}
	for round := 0; ; round++ {
		for _, name := range []string{"replaced", "linked"} {
			p, _ := w.Resolve(dir+"/w", name)
			s, err := w.ReadFile(p, 1<<30)
			if err != nil {
				fmt.Println(err)
				os.Exit(3)
			}
			ctx := &meddling{context.Background(), 0, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }}
			_, _ = fmt.Sscan(number, &ctx.left)
			if _, err := w.WriteFile(ctx, p, version(round), workspace.WriteOptions{Expect: s}); err != nil {
				fmt.Println(err)
				os.Exit(3)
			}
		}
		if number != "" {
			os.Exit(4) // the writes ended before the nth check of the context
		}
	}
}

// version returns the nth version of a file's content. The content reveals whether bytes are missing or come from
// another version.
func version(n int) []byte {
	line := fmt.Sprintf("version %d\n", n)
	return append(bytes.Repeat([]byte(line), 1000+n%50), "end\n"...)
}

func whole(content []byte) bool {
	var n int
	if _, err := fmt.Sscanf(string(content), "version %d\n", &n); err != nil {
		return false
	}
	return bytes.Equal(content, version(n))
}

// afterKill opens the workspace as the next process does after a kill, and checks all files.
func afterKill(t *testing.T, dir string) {
	t.Helper()
	w := space(t, dir+"/w")
	must(t, w.UseJournal(workspace.NewJournal(dir+"/journal")))
	for _, name := range []string{"replaced", "linked", "twin"} {
		got, err := os.ReadFile(dir + "/w/" + name)
		must(t, err)
		if !whole(got) {
			t.Errorf("%s is not whole: %.60q, %d bytes", name, got, len(got))
		}
	}
	names(t, dir+"/w", "replaced", "linked", "twin")
	// One empty journal file can remain, because restoring a file is a write of this process.
	left, err := os.ReadDir(dir + "/journal")
	must(t, err)
	for _, e := range left {
		if info, err := e.Info(); err != nil || info.Size() > 0 || len(left) > 1 {
			t.Errorf("%s was left", e.Name())
		}
	}
}

func killTree(t *testing.T) string {
	dir := tree(t, "w/", "journal/")
	must(t, os.WriteFile(dir+"/w/replaced", version(7), 0o666))
	must(t, os.WriteFile(dir+"/w/linked", version(7), 0o666))
	must(t, os.Link(dir+"/w/linked", dir+"/w/twin"))
	return dir
}

func startChild(t *testing.T, what string) *exec.Cmd {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stdout = t.Output()
	must(t, cmd.Start())
	return cmd
}

// TestKilledAtEachMoment kills a process at each moment of a write. After the next process has cleaned up, all files
// must be complete.
func TestKilledAtEachMoment(t *testing.T) {
	for moment := 1; ; moment++ {
		dir := killTree(t)
		err := startChild(t, fmt.Sprintf("%s|%d", dir, moment)).Wait()
		afterKill(t, dir)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 4 {
			if moment < 4 {
				t.Errorf("there are only %d moments", moment-1)
			}
			return
		}
	}
}

func TestKilledUnderLoad(t *testing.T) {
	dir := killTree(t)
	for range 25 {
		cmd := startChild(t, dir)
		time.Sleep(time.Duration(5+rand.IntN(15)) * time.Millisecond)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() == 3 {
			t.Fatal("the child failed")
		}
		afterKill(t, dir)
	}
}

// TestRecovery creates files in states in which a killed process can leave them. It checks the recovery of each
// state.
func TestRecovery(t *testing.T) {
	const temp = ".toolhost-0123456789ABCDEF.tmp"
	oldText, newText := "old content", "NEW CONTENT"
	for name, c := range map[string]struct {
		target, put string    // contents of the file and of the temporary file; "-" means a missing file
		backup      bool      // true if the temporary file is a backup in the journal
		ready       time.Time // time at which the backup was complete
		elsewhere   bool      // true if the root of the file is not open
		foreign     bool      // true if the write was in another directory that had the same path
		want        string
		kept        bool // true if the temporary file must remain
		journal     bool // true if the journal file must remain
		err         string
	}{
		"killed while filling":          {target: oldText, put: "NEW", want: oldText},
		"killed before the file":        {target: oldText, put: "-", want: oldText},
		"killed before the file, new":   {target: "-", put: "NEW", want: "-"},
		"killed after the exchange":     {target: newText, put: oldText, want: newText},
		"killed with another's version": {target: newText, put: "theirs", want: newText, kept: true, err: "changed by another program"},
		"changed since":                 {target: "later", put: "NEW", want: "later"},
		"another root":                  {target: oldText, put: "NEW", want: oldText, kept: true, journal: true, elsewhere: true},
		"another directory":             {target: "theirs", put: oldText, backup: true, ready: time.Now(), want: "theirs", kept: true, journal: true, foreign: true},
		"backup not complete":           {target: oldText, put: "old", backup: true, want: oldText},
		"written half":                  {target: "NEW content", put: oldText, backup: true, ready: time.Now(), want: oldText},
		"written wholly":                {target: newText, put: oldText, backup: true, ready: time.Now(), want: newText},
		"written not at all":            {target: oldText, put: oldText, backup: true, ready: time.Now(), want: oldText},
		"changed long after":            {target: "later", put: oldText, backup: true, ready: time.Now().Add(-time.Hour), want: "later", kept: true, err: "changed since"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, "w/", "other/", "journal/")
			put := dir + "/w/" + temp
			if c.backup {
				put = dir + "/journal/" + temp
			}
			write := func(path, content string) {
				if content != "-" {
					must(t, os.WriteFile(path, []byte(content), 0o666))
				}
			}
			write(dir+"/w/f", c.target)
			write(put, c.put)
			record := fmt.Sprintf(`{"id":1,"temp":%q,"target":%q,"backup":%v,"old":"%x"}`+"\n", put, dir+"/w/f", c.backup, sha256.Sum256([]byte(oldText)))
			if c.foreign {
				record = strings.Replace(record, `"id":1,`, `"id":1,"device":1,"inode":1,`, 1)
			}
			become := sha256.Sum256([]byte(newText))
			switch {
			case !c.ready.IsZero():
				record += fmt.Sprintf(`{"id":1,"new":"%x","ready":%q}`+"\n", become, c.ready.Format(time.RFC3339Nano))
			case c.put != "NEW" && c.put != "old": // the temporary file is complete, so its hash is recorded
				record += fmt.Sprintf(`{"id":1,"new":"%x"}`+"\n", become)
			}
			record += `{"id":2,"temp":"/w/done","target":"/w/done"}` + "\n" + `{"id":2,"done":true}` + "\n" + `{"id":3,"te`
			must(t, os.WriteFile(dir+"/journal/dead.journal", []byte(record), 0o600))
			root := dir + "/w"
			if c.elsewhere {
				root = dir + "/other"
			}
			err := space(t, root).UseJournal(workspace.NewJournal(dir + "/journal"))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), put)) {
				t.Errorf("error %v", err)
			}
			if got, err := os.ReadFile(dir + "/w/f"); string(got) != strings.TrimPrefix(c.want, "-") || (err != nil) != (c.want == "-") {
				t.Errorf("the file has %q, error %v; want %q", got, err, c.want)
			}
			if _, err := os.Lstat(put); (err == nil) != c.kept {
				t.Errorf("the temporary file: %v", err)
			}
			if left, _ := filepath.Glob(dir + "/journal/dead.journal"); (len(left) > 0) != c.journal {
				t.Errorf("journals left: %v", left)
			}
		})
	}
}

// TestRecoveryLeavesTheLiving checks that recovery keeps the temporary files of a live process.
func TestRecoveryLeavesTheLiving(t *testing.T) {
	dir := killTree(t)
	w := space(t, dir+"/w")
	must(t, w.UseJournal(workspace.NewJournal(dir+"/journal")))
	p := resolve(t, w, dir+"/w", "replaced")
	ctx := &meddling{t.Context(), 3, func() {
		other := space(t, dir+"/w")
		must(t, other.UseJournal(workspace.NewJournal(dir+"/journal")))
		if left, _ := filepath.Glob(dir + "/w/.toolhost*"); len(left) != 1 {
			t.Errorf("the temporary files in the middle of a write: %v", left)
		}
	}}
	_, err := w.WriteFile(ctx, p, version(1), workspace.WriteOptions{})
	must(t, err)
	if ctx.left > 0 {
		t.Error("the moment did not come")
	}
	content(t, dir+"/w/replaced", string(version(1)), "linked", "twin")
}

// TestRecoveryRemovesNothingElse checks that recovery removes nothing except temporary files inside the workspace.
func TestRecoveryRemovesNothingElse(t *testing.T) {
	dir := tree(t, "w/precious", "out/.toolhost-x.tmp", "w/link -> ../out", "journal/")
	for _, temp := range []string{dir + "/w/precious", dir + "/out/.toolhost-x.tmp", dir + "/w/link/.toolhost-x.tmp"} {
		must(t, os.WriteFile(dir+"/journal/dead.journal", fmt.Appendf(nil, `{"id":1,"temp":%q,"target":%q}`+"\n", temp, dir+"/w/f"), 0o600))
		_ = space(t, dir+"/w").UseJournal(workspace.NewJournal(dir + "/journal"))
	}
	content(t, dir+"/w/precious", "w/precious", "link")
	content(t, dir+"/out/.toolhost-x.tmp", "out/.toolhost-x.tmp")
}
