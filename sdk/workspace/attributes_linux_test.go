package workspace_test

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
	"toolhost.dev/sdk/workspace"
)

const nobody = 65534

// as runs f as the user uid if the tests run as root, because root ignores file permissions. It changes the
// user of the current thread only.
func as(t *testing.T, uid int, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	setuid := func(uid int) {
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			t.Fatal(e)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setuid(uid)
	defer setuid(0)
	f()
}

// own changes the owner of files to the unprivileged user of the tests.
func own(t *testing.T, paths ...string) {
	t.Helper()
	if os.Geteuid() == 0 {
		for _, p := range paths {
			must(t, os.Chown(p, nobody, nobody))
		}
	}
}

// acl is an access control list with rwx for the owner, r-- for user 1, and the mask r-x.
var acl = []byte{2, 0, 0, 0,
	1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 4, 0, 1, 0, 0, 0, 4, 0, 5, 0, 255, 255, 255, 255, 16, 0, 5, 0, 255, 255, 255, 255, 32, 0, 1, 0, 255, 255, 255, 255}

func TestOwnerAndAttributesAreKept(t *testing.T) {
	dir := tree(t, "f", "plain")
	path := dir + "/f"
	if os.Geteuid() == 0 {
		must(t, os.Chown(path, 1234, 4321))
	}
	must(t, unix.Setxattr(path, "user.note", []byte("kept"), 0))
	must(t, unix.Setxattr(path, "user.empty", nil, 0))
	must(t, unix.Setxattr(path, "system.posix_acl_access", acl, 0))
	must(t, unix.Chmod(path, 0o4751))
	// The directory's default attributes apply to new files. A write of an existing file must not apply them.
	must(t, unix.Setxattr(dir, "system.posix_acl_default", acl, 0))
	var before, after unix.Stat_t
	must(t, unix.Stat(path, &before))
	w := space(t, dir)
	for _, name := range []string{"f", "plain"} {
		done, err := w.WriteFile(t.Context(), resolve(t, w, dir, name), []byte("new"), workspace.WriteOptions{})
		if err != nil || done.InPlace != "" {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
	}
	must(t, unix.Stat(path, &after))
	if before.Uid != after.Uid || before.Gid != after.Gid || before.Mode != after.Mode || before.Ino == after.Ino {
		t.Errorf("before: %+v\nafter: %+v", before, after)
	}
	value := make([]byte, 256)
	for name, want := range map[string][]byte{"user.note": []byte("kept"), "user.empty": {}, "system.posix_acl_access": acl} {
		if n, err := unix.Getxattr(path, name, value); err != nil || !bytes.Equal(value[:n], want) {
			t.Errorf("%s is %q, error %v", name, value[:max(n, 0)], err)
		}
	}
	if _, err := unix.Getxattr(dir+"/plain", "system.posix_acl_access", value); err != unix.ENODATA {
		t.Errorf("the directory's list was put on a file without one: %v", err)
	}
	if _, err := w.WriteFile(t.Context(), resolve(t, w, dir, "fresh"), []byte("new"), workspace.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Getxattr(dir+"/fresh", "system.posix_acl_access", value); err != nil {
		t.Errorf("a new file has not got the directory's list: %v", err)
	}
}

// TestReadOnlyDirectory checks that a file is written in place if its directory is not writable.
func TestReadOnlyDirectory(t *testing.T) {
	dir := tree(t, "d/f")
	own(t, dir, dir+"/d", dir+"/d/f")
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(dir+"/d", 0o555))
	t.Cleanup(func() { _ = os.Chmod(dir+"/d", 0o777) })
	t.Setenv("TMPDIR", dir) // the backup is written to this directory
	w := space(t, dir)
	p, fresh := resolve(t, w, dir, "d/f"), resolve(t, w, dir, "d/new")
	as(t, nobody, func() {
		s, err := w.ReadFile(p, 100)
		must(t, err)
		done, err := w.WriteFile(t.Context(), p, []byte("new content"), workspace.WriteOptions{Expect: s})
		if err != nil || !strings.Contains(done.InPlace, "directory") {
			t.Errorf("%+v, %v", done, err)
		}
		t.Setenv("TMPDIR", dir+"/d")
		if _, err := w.WriteFile(t.Context(), p, nil, workspace.WriteOptions{}); kind(err) != tool.PermissionDenied || !strings.Contains(err.Error(), "backup") {
			t.Errorf("without a place for the backup: %v", err)
		}
		if _, err := w.WriteFile(t.Context(), fresh, nil, workspace.WriteOptions{}); kind(err) != tool.PermissionDenied {
			t.Errorf("a new file: %v", err)
		}
		if err := w.Remove(t.Context(), p, nil); kind(err) != tool.PermissionDenied {
			t.Errorf("removal: %v", err)
		}
	})
	content(t, dir+"/d/f", "new content")
	names(t, dir, "d")
}

// TestPermissions checks that a file without write permission is not replaced. It also checks the error message for
// a file without read permission.
func TestPermissions(t *testing.T) {
	dir := tree(t, "ro", "secret", "closed/f")
	own(t, dir, dir+"/ro", dir+"/secret", dir+"/closed")
	must(t, os.Chmod(dir+"/ro", 0o444))
	must(t, os.Chmod(dir+"/secret", 0))
	w := space(t, dir)
	ro, secret, closed := resolve(t, w, dir, "ro"), resolve(t, w, dir, "secret"), resolve(t, w, dir, "closed/f")
	must(t, os.Chmod(dir+"/closed", 0))
	t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o777) })
	as(t, nobody, func() {
		_, err := w.WriteFile(t.Context(), ro, []byte("x"), workspace.WriteOptions{})
		if kind(err) != tool.PermissionDenied {
			t.Errorf("a read-only file: %v", err)
		}
		for _, p := range []workspace.Path{secret, closed} {
			if _, err := w.ReadFile(p, 100); kind(err) != tool.PermissionDenied || !strings.Contains(err.Error(), p.String()) {
				t.Errorf("%s: %v", p, err)
			}
		}
		if _, err := w.Resolve(dir, "closed/f"); kind(err) != tool.PermissionDenied {
			t.Errorf("resolve behind a closed directory: %v", err)
		}
	})
	content(t, dir+"/ro", "ro", "secret", "closed")
}

// TestAnotherUsersFile checks that a file of another user keeps its owner. Such a file must be written in place,
// because a replacement would have another owner.
func TestAnotherUsersFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give a file away; the rest of the rule is tested by TestReadOnlyDirectory")
		return
	}
	dir := tree(t, "d/f")
	own(t, dir+"/d")
	must(t, os.Chmod(dir+"/d/f", 0o666))
	w := space(t, dir)
	p := resolve(t, w, dir, "d/f")
	as(t, nobody, func() {
		done, err := w.WriteFile(t.Context(), p, []byte("new"), workspace.WriteOptions{})
		if err != nil || !strings.Contains(done.InPlace, "owner") {
			t.Errorf("%+v, %v", done, err)
		}
	})
	content(t, dir+"/d/f", "new")
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/d/f", &st))
	if st.Uid != 0 {
		t.Errorf("the owner is %d now", st.Uid)
	}
}

// TestNoRoom checks a full disk: the old content must stay, and no temporary file must remain.
func TestNoRoom(t *testing.T) {
	t.Run("file size limit", func(t *testing.T) {
		signal.Ignore(syscall.SIGXFSZ)
		var was unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
		must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 64 << 10, Max: was.Max}))
		defer func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &was) }()
		noRoom(t, tree(t), 80<<10)
	})
	t.Run("full disk", func(t *testing.T) {
		dir := tree(t)
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=96k"); err != nil {
			tooltest.InUserNamespace(t, err) // skip, because the subtest above covers the same code
			return
		}
		defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
		noRoom(t, dir, 200<<10)
	})
}

func noRoom(t *testing.T, dir string, size int) {
	old := strings.Repeat("old ", 5000)
	must(t, os.WriteFile(dir+"/f", []byte(old), 0o666))
	w := space(t, dir)
	tooMuch := bytes.Repeat([]byte("new\n"), size/4)
	write := func(name string) error {
		_, err := w.WriteFile(t.Context(), resolve(t, w, dir, name), tooMuch, workspace.WriteOptions{})
		return err
	}
	for _, name := range []string{"f", "fresh"} {
		if err := write(name); kind(err) != tool.ExecutionFailed || !strings.Contains(err.Error(), "unchanged") {
			t.Errorf("%s: %v", name, err)
		}
		content(t, dir+"/f", old)
	}
	must(t, os.Link(dir+"/f", dir+"/twin"))
	if err := write("f"); kind(err) != tool.ExecutionFailed {
		t.Errorf("in place: %v", err)
	}
	content(t, dir+"/f", old, "twin")
	if err := os.Remove(dir + "/twin"); err != nil {
		t.Fatal(err)
	}
}
