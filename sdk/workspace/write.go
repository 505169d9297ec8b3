package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"toolhost.dev/sdk/tool"
)

// WriteOptions restricts and describes a write. The zero value replaces whatever file is there.
type WriteOptions struct {
	// Expect is the content that the new one was made from. The write is refused as Conflict if
	// the file's bytes have changed since. A newer modification time of the same bytes is no
	// conflict.
	Expect *Snapshot
	// New refuses the write as Conflict if the file exists.
	New bool
	// Parents creates missing directories.
	Parents bool
	// Perm is the mode of a new file before the umask. Zero means 0666.
	Perm fs.FileMode
	// Hash returns the SHA-256 of the data, for a caller that needs it too. It is called once the
	// data is on disk, so that it may be computed meanwhile. If Hash is nil, WriteFile computes
	// it.
	Hash func() [sha256.Size]byte
	// Mode is the exact mode of the file afterwards: permission, setuid, setgid and sticky bits.
	// If it is nil, an existing file keeps its mode and a new one gets Perm.
	Mode *fs.FileMode
	// Attributes are the attributes of a new file. If they are nil, it has those that the system
	// gives it. Attributes that the system refuses do not fail the write; Written.Refused names
	// them. With Attributes, Mode must be set too.
	Attributes *Attributes
	// Ready is called before the file changes, when the new content, or the backup of the old one,
	// is on disk. What must be done before the change can be done meanwhile. If Ready fails,
	// WriteFile returns its error and leaves the file as it was. Ready may be nil.
	Ready func() error
	// Changed is called once every reader sees the new content, and before the change is known to
	// last. What follows from the change can be done meanwhile. WriteFile may still fail after
	// that, if the directory cannot be synced. Changed may be nil.
	Changed func()
}

// Written describes a write that succeeded.
type Written struct {
	// State is the state of the file afterwards.
	State tool.FileState
	// Created reports that there was no file before.
	Created bool
	// InPlace is the reason why the file was written over instead of replaced in one step. It is
	// empty if the file was replaced.
	InPlace string
	// Refused names the parts of [WriteOptions.Attributes] that the file did not get, as in "its
	// owner was the user 0".
	Refused []string

	before *Snapshot
}

// Effect returns the effect that reports the write to the host.
func (w *Written) Effect() tool.Effect {
	e := tool.Effect{Operation: tool.OpModify, File: w.State}
	switch {
	case w.Created:
		e.Operation = tool.OpCreate
	case w.before != nil:
		hash := w.before.Hash()
		e.HashBefore = &hash
	}
	return e
}

// WriteFile replaces the content of the file at p, or creates the file:
//
//  1. It opens the directory without following symbolic links, and compares the current file
//     with opt.Expect.
//  2. It writes the content to a new file beside it and syncs that to disk. The new file gets the
//     old one's owner, extended attributes, access control list and, last, its mode, or opt.Mode.
//     If there is no old file, the mode is opt.Perm without the bits of the umask.
//  3. It compares the current file again, byte by byte, renames the new file to its name in one
//     step, and syncs the directory.
//
// Some files are written in place instead, with a backup meanwhile: files with several hard links,
// files in a directory without write permission, and files whose owner or attributes cannot be
// copied to another file. Written.InPlace is the reason. Any failure leaves the old content
// whole and no other file behind. Writes to one path run one after the other.
func (w *Workspace) WriteFile(ctx context.Context, p Path, data []byte, opt WriteOptions) (*Written, error) {
	if err := w.writable(p); err != nil {
		return nil, err
	}
	if p.rel == "." {
		return nil, notRegular(p.abs, fs.ModeDir)
	}
	if opt.Parents {
		if err := w.MkdirAll(w.Parent(p)); err != nil {
			return nil, err
		}
	}
	unlock, err := writing.lock(ctx, p.abs)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir, err := pin(p)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	old, err := dir.current(p)
	if err != nil {
		return nil, err
	}
	defer old.close()
	if err := old.check(p, opt); err != nil {
		return nil, err
	}
	job := &writeJob{ctx: ctx, path: p, dir: dir, old: old, data: data, hash: opt.Hash, opt: opt, journal: w.journal}
	if job.hash == nil {
		job.hash = sync.OnceValue(func() [sha256.Size]byte { return sha256.Sum256(data) })
		go job.hash()
	}
	done, err := job.run()
	if err != nil {
		return nil, fail("write", p.abs, err)
	}
	done.State.Path, done.State.Size, done.State.Hash = p.abs, int64(len(data)), job.hash()
	done.before = opt.Expect
	return done, nil
}

// MkdirAll creates a directory and its missing parents.
func (w *Workspace) MkdirAll(p Path) error {
	if err := w.writable(p); err != nil {
		return err
	}
	if p.rel == "." {
		return nil
	}
	err := p.tree.dir.MkdirAll(p.rel, 0o777)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) {
		return tool.Errorf(tool.InvalidArguments, "Cannot make the directory %s: an element of the path is a file. Choose another path, or remove that file.", p.abs).WithCause(err)
	}
	if err != nil {
		return fail("make the directory", p.abs, err)
	}
	return nil
}

// Remove removes a regular file if its content is still as expected. A nil expect removes it in
// any case.
func (w *Workspace) Remove(ctx context.Context, p Path, expect *Snapshot) error {
	if err := w.writable(p); err != nil {
		return err
	}
	unlock, err := writing.lock(ctx, p.abs)
	if err != nil {
		return err
	}
	defer unlock()
	dir, err := pin(p)
	if err != nil {
		return err
	}
	defer dir.close()
	old, err := dir.current(p)
	if err != nil {
		return err
	}
	defer old.close()
	if old.info == nil {
		return notExist(p.abs)
	}
	if err := old.check(p, WriteOptions{Expect: expect}); err != nil {
		return err
	}
	if expect != nil {
		if err := old.verify(p, expect); err != nil {
			return err
		}
	}
	if err := dir.root.Remove(dir.base); err != nil {
		return fail("remove", p.abs, err)
	}
	return dir.sync(p.abs)
}

// RemoveDir removes a directory if it is empty.
func (w *Workspace) RemoveDir(p Path) error {
	if err := w.writable(p); err != nil {
		return err
	}
	if p.rel == "." {
		return tool.Errorf(tool.InvalidArguments, "%s is a root, which is not removed.", p.abs)
	}
	dir, err := pin(p)
	if err != nil {
		return err
	}
	defer dir.close()
	at, err := dir.root.Lstat(dir.base)
	if err != nil {
		return fail("remove", p.abs, err)
	}
	if !at.IsDir() {
		return tool.Errorf(tool.InvalidArguments, "%s is not a directory.", p.abs)
	}
	if err := dir.root.Remove(dir.base); err != nil { // the system refuses one with entries
		return fail("remove", p.abs, err)
	}
	return dir.sync(p.abs)
}

func (w *Workspace) writable(p Path) error {
	if err := w.usable(p); err != nil {
		return err
	}
	if !p.Writable() {
		return tool.Errorf(tool.PermissionDenied, "%s is in %s, which is read-only here. Write to one of the read-write roots (%s), or have an operator make this one writable in the configuration.",
			p.abs, p.root.Path, w.describeRoots())
	}
	return nil
}

// pinned is the directory of a file that is about to change, held open.
type pinned struct {
	root  *os.Root
	file  *os.File // the same directory, for system calls that os.Root lacks
	base  string
	owned bool // root is to be closed
}

// pin opens the directory that holds p. It goes down step by step and follows no symbolic link,
// because one that appeared since p was resolved could lead from a writable root to a read-only
// one inside it.
func pin(p Path) (pinned, error) {
	d := pinned{root: p.tree.dir, base: filepath.Base(p.rel)}
	for _, name := range elements(filepath.Dir(p.rel)) {
		next, err := openStep(d.root, name)
		d.close()
		if err != nil {
			return d, fail("write", p.abs, err)
		}
		d.root, d.owned = next, true
	}
	f, err := d.root.Open(".")
	if err != nil {
		d.close()
		return d, fail("write", p.abs, err)
	}
	d.file = f
	return d, nil
}

func openStep(dir *os.Root, name string) (*os.Root, error) {
	was, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := next.Stat("."); err != nil || !os.SameFile(was, now) {
		_ = next.Close()
		return nil, tool.Errorf(tool.Conflict, "The directory %q was replaced while the call ran, perhaps by a symbolic link. Nothing was written; look at it again (list).", name)
	}
	return next, nil
}

func (d *pinned) close() {
	if d.file != nil {
		_ = d.file.Close()
	}
	if d.owned {
		_ = d.root.Close()
	}
	d.file, d.owned = nil, false
}

// sync makes a change of one of the directory's entries durable. If it fails, the change is made
// nevertheless.
func (d *pinned) sync(path string) error {
	err := d.file.Sync()
	if err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) { // some file systems cannot
		return nil
	}
	return tool.Errorf(tool.ExecutionFailed, "%s was changed, but the system could not confirm that the change is on the disk (%v). A crash may undo it. Check the file and the disk before you go on.", path, cause(err))
}
