package workspace_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/workspace"
)

// gone creates a file with all attributes and removes the file. It returns the attributes of the removed file.
func gone(t *testing.T, w *workspace.Workspace, dir string, uid, gid int, mode uint32) (*workspace.Snapshot, *workspace.Attributes) {
	t.Helper()
	path := dir + "/gone"
	must(t, os.WriteFile(path, []byte("text"), 0o600))
	if os.Geteuid() == 0 {
		must(t, os.Chown(path, uid, gid))
	}
	if err := unix.Setxattr(path, "user.note", []byte("kept"), 0); err != nil {
		t.Skipf("the file system has no extended attributes: %v", err)
	}
	must(t, unix.Setxattr(path, "user.empty", nil, 0))
	must(t, unix.Setxattr(path, "system.posix_acl_access", acl, 0))
	must(t, unix.Chmod(path, mode))
	p := resolve(t, w, dir, "gone")
	snap, err := w.ReadFile(p, 100)
	must(t, err)
	a, err := w.Attributes(p)
	must(t, err)
	must(t, w.Remove(t.Context(), p, snap))
	return snap, a
}

func TestAttributesComeBack(t *testing.T) {
	dir := tree(t)
	w := space(t, dir)
	snap, had := gone(t, w, dir, 1234, 4321, 0o4751)
	// The restored file must have its own access control list instead of the directory's default list.
	must(t, unix.Setxattr(dir, "system.posix_acl_default", acl, 0))
	plain := &workspace.Attributes{UID: had.UID, GID: had.GID}
	for name, want := range map[string]*workspace.Attributes{"gone": had, "plain": plain} {
		done, err := w.WriteFile(t.Context(), resolve(t, w, dir, name), snap.Data, workspace.WriteOptions{New: true, Mode: &snap.Mode, Attributes: want})
		if err != nil || len(done.Refused) > 0 {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
		got, err := w.Attributes(resolve(t, w, dir, name))
		must(t, err)
		if got.UID != want.UID || got.GID != want.GID || len(got.Extended) != len(want.Extended) {
			t.Errorf("%s has %+v, it had %+v", name, got, want)
		}
		for attribute, value := range want.Extended {
			if !bytes.Equal(got.Extended[attribute], value) {
				t.Errorf("%s: %s is %q", name, attribute, got.Extended[attribute])
			}
		}
		if info, err := os.Stat(dir + "/" + name); err != nil || info.Mode() != snap.Mode {
			t.Errorf("the mode of %s is %v, it was %v: %v", name, info.Mode(), snap.Mode, err)
		}
	}
}

// TestRefusedAttributes restores attributes as a user who cannot change owners. It checks that the rejected
// attributes are reported and that no user gains permissions.
func TestRefusedAttributes(t *testing.T) {
	dir := tree(t)
	w := space(t, dir)
	must(t, os.Chmod(dir, 0o777))
	snap, had := gone(t, w, dir, 1234, 4321, 0o6774)
	had.UID, had.GID = 1234, 4321 // only root could restore this owner and group
	had.Unknown = "one was not readable"
	p := resolve(t, w, dir, "gone")
	as(t, nobody, func() {
		done, err := w.WriteFile(t.Context(), p, snap.Data, workspace.WriteOptions{New: true, Mode: &snap.Mode, Attributes: had})
		if err != nil {
			t.Error(err)
			return
		}
		for _, want := range []string{"one was not readable", "its owner was the user 1234", "its group was the group 4321, so", "setuid", "access control list"} {
			if !slices.ContainsFunc(done.Refused, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("nothing is said of %q: %q", want, done.Refused)
			}
		}
	})
	info, err := os.Stat(dir + "/gone")
	if want := fs.FileMode(0o744); err != nil || info.Mode() != want {
		t.Errorf("the mode is %v, not %v: %v", info.Mode(), want, err)
	}
	value := make([]byte, 100)
	if n, err := unix.Getxattr(dir+"/gone", "user.note", value); err != nil || string(value[:n]) != "kept" {
		t.Errorf("the attribute that it may have is %q: %v", value[:max(n, 0)], err)
	}
}

// TestSetuidOfAnotherGroup restores a setuid program whose owner can be restored, but whose group cannot.
func TestSetuidOfAnotherGroup(t *testing.T) {
	dir := tree(t)
	w := space(t, dir)
	must(t, os.Chmod(dir, 0o777))
	mode := fs.FileMode(0o755) | fs.ModeSetuid
	p := resolve(t, w, dir, "program")
	as(t, nobody, func() {
		had := &workspace.Attributes{UID: os.Geteuid(), GID: os.Getegid() + 4321}
		done, err := w.WriteFile(t.Context(), p, []byte("text"), workspace.WriteOptions{New: true, Mode: &mode, Attributes: had})
		if err != nil || !slices.Contains(done.Refused, "its mode had setuid or setgid") {
			t.Errorf("%+v, %v", done, err)
		}
	})
	if info, err := os.Stat(dir + "/program"); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

// looking is a context that calls a function at each check of the context. The function inspects files.
type looking struct {
	context.Context
	look func()
}

func (l looking) Err() error { l.look(); return l.Context.Err() }

// TestPrivateFromTheBeginning checks that other users cannot read a private file at any moment of the write.
func TestPrivateFromTheBeginning(t *testing.T) {
	dir := tree(t)
	w := space(t, dir)
	seen, mode := 0, fs.FileMode(0o600)
	look := func() {
		names, err := filepath.Glob(dir + "/.toolhost-*")
		must(t, err)
		for _, name := range names {
			info, err := os.Stat(name)
			if must(t, err); info.Mode().Perm()&0o077 != 0 {
				t.Errorf("it has the mode %v", info.Mode())
			}
			seen++
		}
	}
	_, err := w.WriteFile(looking{t.Context(), look}, resolve(t, w, dir, "secret"), []byte("text"), workspace.WriteOptions{New: true, Mode: &mode})
	if must(t, err); seen == 0 {
		t.Error("it was not seen")
	}
}
