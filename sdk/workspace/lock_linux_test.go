package workspace_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

func init() { children["count"] = count }

// counted is the number of times that each process increments the number in the file.
const counted = 40

// count repeatedly increments a number in a file while it holds the lock. The write does not use Expect, so only the
// lock prevents lost updates.
func count(w *workspace.Workspace, dir string) {
	p, err := w.Resolve(dir, "n")
	for i := 0; i < counted && err == nil; i++ {
		var unlock func()
		if unlock, err = w.Lock(context.Background(), p); err != nil {
			break
		}
		var s *workspace.Snapshot
		if s, err = w.ReadFile(p, 100); err == nil {
			var n int
			_, _ = fmt.Sscan(string(s.Data), &n)
			_, err = w.WriteFile(context.Background(), p, fmt.Append(nil, n+1), workspace.WriteOptions{})
		}
		unlock()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	os.Exit(0)
}

func TestLockAmongProcesses(t *testing.T) {
	dir := tree(t, "w/", "journal/")
	must(t, os.WriteFile(dir+"/w/n", []byte("0"), 0o666))
	var all []*exec.Cmd
	for range 3 {
		all = append(all, startChild(t, dir+"|count"))
	}
	for _, cmd := range all {
		must(t, cmd.Wait())
	}
	content(t, dir+"/w/n", fmt.Sprint(3*counted))

	// The lock of a live process must block other callers. The lock of a dead process must be free.
	open := func() (*workspace.Workspace, workspace.Path) {
		w, err := workspace.Open([]tool.Root{{Path: dir + "/w", Writable: true}})
		must(t, err)
		must(t, w.UseJournal(workspace.NewJournal(dir+"/journal")))
		return w, resolve(t, w, dir+"/w", "n")
	}
	w, p := open()
	unlock, err := w.Lock(t.Context(), p)
	must(t, err)
	cmd := startChild(t, dir+"|count")
	time.Sleep(50 * time.Millisecond)
	content(t, dir+"/w/n", fmt.Sprint(3*counted))
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	unlock()
	unlock, err = w.Lock(t.Context(), p)
	must(t, err)
	unlock()
	// Only the lock file must remain, and it must be empty.
	left, err := filepath.Glob(dir + "/journal/*")
	must(t, err)
	for _, name := range left {
		if info, err := os.Stat(name); err != nil || info.Size() > 0 {
			t.Errorf("%s has %d bytes, %v", name, info.Size(), err)
		}
	}
}
