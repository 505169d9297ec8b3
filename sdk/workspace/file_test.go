package workspace_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

func resolve(t testing.TB, w *workspace.Workspace, cwd, path string) workspace.Path {
	t.Helper()
	p, err := w.Resolve(cwd, path)
	must(t, err)
	return p
}

func TestReadFile(t *testing.T) {
	dir := tree(t, "f", "empty")
	must(t, os.WriteFile(dir+"/empty", nil, 0o666))
	w := space(t, dir)
	for _, name := range []string{"f", "empty"} {
		s, err := w.ReadFile(resolve(t, w, dir, name), 10)
		must(t, err)
		want, _ := os.ReadFile(filepath.Join(dir, name))
		info, _ := os.Stat(filepath.Join(dir, name))
		state := tool.FileState{Path: filepath.Join(dir, name), ModTime: info.ModTime(), Size: info.Size(), Hash: sha256.Sum256(want)}
		if !bytes.Equal(s.Data, want) || s.State() != state || s.Effect().Operation != tool.OpRead {
			t.Errorf("%s: got %q, %+v", name, s.Data, s.State())
		}
	}
}

// TestReadFileLimit checks that a file of exactly the limit is read. It also checks that the error for a larger file
// contains the size and the limit.
func TestReadFileLimit(t *testing.T) {
	dir := tree(t)
	must(t, os.WriteFile(dir+"/f", make([]byte, 4096), 0o666))
	w := space(t, dir)
	if _, err := w.ReadFile(resolve(t, w, dir, "f"), 4096); err != nil {
		t.Error(err)
	}
	_, err := w.ReadFile(resolve(t, w, dir, "f"), 4095)
	if !errors.Is(err, workspace.ErrTooLarge) || kind(err) != tool.InvalidArguments || !strings.Contains(err.Error(), "4 KiB") {
		t.Errorf("got %v", err)
	}
	// A file that is larger than the memory must be rejected before it is read.
	must(t, os.Truncate(dir+"/f", 1<<40))
	if _, err := w.ReadFile(resolve(t, w, dir, "f"), workspace.MaxFileSize); !errors.Is(err, workspace.ErrTooLarge) || !strings.Contains(err.Error(), "1 TiB") {
		t.Errorf("got %v", err)
	}
}

// TestOnlyRegularFiles checks that FIFOs, devices, sockets and directories are rejected immediately. Opening a FIFO
// would block this test.
func TestOnlyRegularFiles(t *testing.T) {
	dir := tree(t, "d/", "null -> /dev/null")
	must(t, syscall.Mkfifo(dir+"/fifo", 0o666))
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(t, err)
	defer func() { _ = syscall.Close(fd) }()
	t.Chdir(dir) // use relative paths, because the path of a socket must be short
	must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: "sock"}))
	w := space(t, dir, "/dev:ro")
	for path, what := range map[string]string{"fifo": "named pipe", "sock": "socket", "d": "directory", ".": "directory", "/dev/zero": "device", "null": "device"} {
		p := resolve(t, w, dir, path)
		if _, err := w.Open(p); kind(err) != tool.InvalidArguments || !strings.Contains(err.Error(), what) {
			t.Errorf("Open %s: %v", path, err)
		}
		if _, err := w.ReadFile(p, 10); kind(err) != tool.InvalidArguments {
			t.Errorf("ReadFile %s: %v", path, err)
		}
		if !p.Writable() {
			continue
		}
		if _, err := w.WriteFile(t.Context(), p, []byte("x"), workspace.WriteOptions{}); kind(err) != tool.InvalidArguments || !strings.Contains(err.Error(), what) {
			t.Errorf("WriteFile %s: %v", path, err)
		}
		if err := w.Remove(t.Context(), p, nil); kind(err) != tool.InvalidArguments {
			t.Errorf("Remove %s: %v", path, err)
		}
	}
	// A FIFO replaces a file whose path was already resolved.
	must(t, os.WriteFile(dir+"/f", []byte("x"), 0o666))
	p := resolve(t, w, dir, "f")
	must(t, os.Remove(dir+"/f"))
	must(t, syscall.Mkfifo(dir+"/f", 0o666))
	if _, err := w.Open(p); kind(err) != tool.InvalidArguments || !strings.Contains(err.Error(), "named pipe") {
		t.Errorf("a FIFO in the place of a file: %v", err)
	}
}

func TestReadDir(t *testing.T) {
	dir := tree(t, "b", "a", "c/x", "out -> /etc", "f")
	w := space(t, dir)
	root := resolve(t, w, dir, ".")
	entries, more, err := w.ReadDir(root, 0)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if (e.Type()&os.ModeSymlink != 0) != (e.Name() == "out") {
			t.Errorf("%s has type %v", e.Name(), e.Type())
		}
	}
	if more || !slices.Equal(names, []string{"a", "b", "c", "f", "out"}) {
		t.Errorf("got %v, more %v", names, more)
	}
	if entries, more, err = w.ReadDir(root, 2); len(entries) != 2 || !more || err != nil {
		t.Errorf("limited: %v, more %v, error %v", entries, more, err)
	}
	if entries, more, err = w.ReadDir(root, 5); len(entries) != 5 || more || err != nil {
		t.Errorf("limit reached exactly: %v, more %v, error %v", entries, more, err)
	}
	if target, err := w.Readlink(root, "out"); target != "/etc" || err != nil {
		t.Errorf("the link says %q, error %v", target, err)
	}
	if _, err := w.Readlink(root, "../x"); err == nil {
		t.Error("a link outside was read")
	}
	if info, err := w.Lstat(root, "out"); err != nil || info.Mode()&fs.ModeSymlink == 0 || info.Name() != "out" {
		t.Errorf("the link itself: %v, %v", info, err)
	}
	if _, err := w.Lstat(root, "../x"); err == nil {
		t.Error("an entry outside of the root is described")
	}
	if names, err = w.Names(root, 0); len(names) != 5 || err != nil {
		t.Errorf("names: %v, error %v", names, err)
	}
	if _, _, err = w.ReadDir(resolve(t, w, dir, "f"), 0); kind(err) != tool.InvalidArguments {
		t.Errorf("of a file: %v", err)
	}
	if _, _, err = w.ReadDir(resolve(t, w, dir, "no"), 0); kind(err) != tool.NotFound {
		t.Errorf("of nothing: %v", err)
	}
	if err := os.WriteFile(dir+"/e", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if entries, more, err = w.ReadDir(resolve(t, w, dir, "c"), 0); len(entries) != 1 || more || err != nil {
		t.Errorf("of a subdirectory: %v %v %v", entries, more, err)
	}
}

func TestNoDescriptorIsLeft(t *testing.T) {
	dir := tree(t, "f")
	w := space(t, dir)
	p := resolve(t, w, dir, "f")
	before := openFiles(t)
	for range 200 {
		if _, err := w.ReadFile(p, 100); err != nil {
			t.Fatal(err)
		}
		resolve(t, w, dir, "f")
		if _, err := w.WriteFile(t.Context(), p, []byte("x"), workspace.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open, before it was %d", after, before)
	}
}

func openFiles(t *testing.T) int {
	dir := "/proc/self/fd"
	if _, err := os.Stat(dir); err != nil {
		dir = "/dev/fd"
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	return len(entries)
}
