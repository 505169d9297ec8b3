package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host"
)

// branchHost opens a host with the real plugins over a new workspace.
func branchHost(t *testing.T, files map[string]string) (h *host.Host, ws, state string) {
	t.Helper()
	dir := t.TempDir()
	ws, state = filepath.Join(dir, "ws"), filepath.Join(dir, "state")
	writeFiles(t, ws, files)
	h, err := host.New(t.Context(), host.Options{BundledDir: filepath.Join(bin, "plugins"), Workspace: ws, StateDir: state, Live: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, ws, state
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inBranch runs a command in a branch and compares a part of its output or of its error.
func inBranch(t *testing.T, h *host.Host, branch, command, want string) {
	t.Helper()
	res := h.Run(t.Context(), host.Request{Command: command, Branch: branch}, nil)
	got := res.Output
	if res.Error != nil {
		got = res.Error.Message
	}
	if !strings.Contains(got, want) {
		t.Errorf("%s in branch %q printed %q, want %q", command, branch, got, want)
	}
}

// indexed waits until grep uses its index in a branch. Only then could it miss a change.
func indexed(t *testing.T, h *host.Host, branch string) {
	t.Helper()
	for range 500 {
		res := h.Run(t.Context(), host.Request{Command: "grep nothing", Branch: branch}, nil)
		if res.Metadata["index"] == "ready" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("grep does not use an index")
}

// TestBaseChangesDuringBranch changes the workspace while a branch is mounted. The next call of every tool sees the changes.
func TestBaseChangesDuringBranch(t *testing.T) {
	needsNamespaces(t)
	h, ws, _ := branchHost(t, map[string]string{"a": "old\n", "d/gone": "gone\n", "d/in": "in place\n"})
	look := func(a, late, gone string) {
		t.Helper()
		inBranch(t, h, "b", "read a", a)
		inBranch(t, h, "b", "cat a", a)
		inBranch(t, h, "b", "read d/late", map[bool]string{true: late, false: "does not exist"}[late == "late"])
		inBranch(t, h, "b", "cat d/late 2>&1 || true", late)
		inBranch(t, h, "b", "read d/gone", map[bool]string{true: gone, false: "does not exist"}[gone == "gone"])
		inBranch(t, h, "b", "cat d/gone", gone)
		inBranch(t, h, "b", "grep "+a, "a:1:"+a)
		inBranch(t, h, "b", "test -e own && echo own", "own")
	}
	inBranch(t, h, "b", "touch own", "")
	look("old", "No such file", "gone")
	indexed(t, h, "b")
	writeFiles(t, ws, map[string]string{"t": "new\n", "d/late": "late\n", "d/in": "changed\n"})
	if err := os.Rename(filepath.Join(ws, "t"), filepath.Join(ws, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(ws, "d/gone")); err != nil {
		t.Fatal(err)
	}
	look("new", "late", "o such file")
	inBranch(t, h, "b", "cat d/in", "changed")
	// The branch may change what was changed outside.
	inBranch(t, h, "b", "echo branch >> a; cat a", "new\nbranch")
	if b, err := os.ReadFile(filepath.Join(ws, "a")); err != nil || string(b) != "new\n" {
		t.Errorf("the workspace has %q, %v", b, err)
	}
}
