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

// WriteOptions holds the conditions and attributes of a write. The zero value replaces any existing file.
type WriteOptions struct {
	// Expect is the content on which the new content is based. If the file no longer has these bytes, the write
	// fails with a Conflict. A changed modification time alone is no conflict.
	Expect *Snapshot
	// New makes the write fail with a Conflict if the file exists.
	New bool
	// Parents creates missing parent directories.
	Parents bool
	// Perm is the mode of a new file before the umask. Zero means 0666.
	Perm fs.FileMode
	// Hash returns the SHA-256 of the data. WriteFile calls it once, after the data is on disk. The caller can
	// compute the hash while WriteFile writes. If Hash is nil, WriteFile computes the hash itself.
	Hash func() [sha256.Size]byte
	// Mode is the exact final mode of the file: permission, setuid, setgid and sticky bits. If Mode is nil, an existing
	// file keeps its mode and a new file gets Perm.
	Mode *fs.FileMode
	// Attributes are the attributes of a new file. Nil means the system's defaults. If the system rejects an attribute,
	// the write still succeeds and Written.Refused describes the attribute. Attributes require Mode.
	Attributes *Attributes
	// Ready is called before the file changes. At this point, either the new content or a backup of the old content
	// is on disk. The caller can do other required work in parallel. Ready then waits for that work. If Ready fails,
	// WriteFile returns the error of Ready and leaves the file unchanged. Ready can be nil.
	Ready func() error
	// Changed is called as soon as readers see the new content. At this point, the change is possibly not yet on
	// disk, and WriteFile can still fail. The caller can start follow-up work in Changed. Changed can be nil.
	Changed func()
}

// Written describes a successful write.
type Written struct {
	// State is the state of the file after the write.
	State tool.FileState
	// Created reports whether the write created the file.
	Created bool
	// InPlace is the reason why the file was written in place. It is empty if the file was replaced atomically.
	InPlace string
	// Refused describes the parts of [WriteOptions.Attributes] that the system rejected, such as "its owner was the
	// user 0".
	Refused []string

	before *Snapshot
}

// Effect returns an effect that reports the write to the host.
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
//  1. WriteFile opens the directory without following symbolic links and compares the old file with opt.Expect.
//  2. It writes the content to a new file in the same directory and syncs the new file to disk. The new file gets the
//     owner, extended attributes, access control list and mode of the old file. opt.Mode overrides the mode. Without an
//     old file, the mode is opt.Perm without the bits of the umask.
//  3. It compares the old file again, byte by byte. Then it renames the new file atomically and syncs the directory.
//
// Some files are written in place instead, with a temporary backup. These are files with several hard links, files in a
// directory without write permission, and files whose owner or attributes cannot be copied. Written.InPlace is the
// reason. After any failure, the old content is intact and no other files remain. Only one write to a path runs at a
// time.
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

// Remove removes a regular file if its content equals expect. A nil expect removes the file in any case.
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
		return tool.Errorf(tool.InvalidArguments, "%s is a root and cannot be removed.", p.abs)
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
	if err := dir.root.Remove(dir.base); err != nil { // the system call fails if the directory is not empty
		return fail("remove", p.abs, err)
	}
	return dir.sync(p.abs)
}

func (w *Workspace) writable(p Path) error {
	if err := w.usable(p); err != nil {
		return err
	}
	if !p.Writable() {
		return tool.Errorf(tool.PermissionDenied, "%s is in %s, which is a read-only root. Write to one of the read-write roots (%s). An operator can make this root writable in the configuration.",
			p.abs, p.root.Path, w.describeRoots())
	}
	return nil
}

// pinned is the open directory of a file that will change.
type pinned struct {
	root  *os.Root
	file  *os.File // the same directory opened as a file, for system calls that os.Root does not support
	base  string
	owned bool // true if root must be closed after use
}

// pin opens the directory of p step by step. It does not follow symbolic links. Otherwise a link that was just
// created could lead from a writable root to a read-only root inside it.
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
		return nil, tool.Errorf(tool.Conflict, "The directory %q was replaced during the call, perhaps by a symbolic link. Nothing was written. List the directory again.", name)
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

// sync writes a changed directory entry to disk. If sync fails, the change exists but can be lost in a crash.
func (d *pinned) sync(path string) error {
	err := d.file.Sync()
	if err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) { // ignore the error of file systems that cannot sync directories
		return nil
	}
	return tool.Errorf(tool.ExecutionFailed, "%s was changed, but the system could not confirm that the change is on the disk (%v). A crash may undo the change. Check the disk and the file before you change it again.", path, cause(err))
}
