package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/internal/journal"
)

// writeJob is one write. Its target is already open and checked.
type writeJob struct {
	ctx  context.Context
	path Path
	dir  pinned
	old  *current
	data []byte
	hash func() [32]byte // returns the SHA-256 of data
	opt  WriteOptions

	journal *journal.Journal
}

// note returns the journal record for the temporary file or backup that the write creates next.
func (j *writeJob) note(temp string, backup bool) journal.Record {
	r := journal.Record{Temp: temp, Target: j.path.abs, Backup: backup}
	r.Device, r.Inode = j.path.directory()
	if j.opt.Expect != nil {
		r.Old = j.opt.Expect.Hash()
	}
	return r
}

// sibling returns the absolute path of a file name in the target's directory.
func (j *writeJob) sibling(name string) string { return filepath.Join(filepath.Dir(j.path.abs), name) }

// replaceError explains why a file cannot be replaced and must be written in place.
type replaceError struct {
	why string
	err error
}

func (e *replaceError) Error() string { return e.why + ": " + e.err.Error() }
func (e *replaceError) Unwrap() error { return e.err }

func (j *writeJob) run() (*Written, error) {
	if j.old.info == nil {
		return j.replace()
	}
	// Replacing a file requires no write permission for the file itself. But a file without write permission is
	// rejected here, because its mode shows that it must not change.
	if err := unix.Faccessat(int(j.dir.file.Fd()), j.dir.base, unix.W_OK, unix.AT_EACCESS); err != nil {
		return nil, err
	}
	if n := links(j.old.info); n > 1 {
		return j.overwrite(fmt.Sprintf("it has %d hard links", n))
	}
	done, err := j.replace()
	if cannot, ok := errors.AsType[*replaceError](err); ok {
		return j.overwrite(cannot.why)
	}
	return done, err
}

const tempPrefix = ".toolhost-"

func tempName() string { return tempPrefix + rand.Text()[:16] + ".tmp" }

// replace writes a new file and renames it to the name of the old file.
func (j *writeJob) replace() (done *Written, err error) {
	name, perm := tempName(), fs.FileMode(0o600)
	if j.old.info == nil {
		if perm = j.opt.Perm.Perm(); perm == 0 {
			perm = 0o666
		}
		if j.opt.Mode != nil { // only the owner has access until the final mode is set
			perm = 0o600
		}
	}
	noted := j.journal.Begin(j.note(j.sibling(name), false))
	defer noted.Done()
	f, err := j.dir.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		if refused(err) && j.old.info != nil {
			return nil, &replaceError{"its directory is not writable", err}
		}
		return nil, err
	}
	keep := false
	tidy := sync.OnceFunc(func() {
		_ = f.Close()
		if !keep {
			_ = j.dir.root.Remove(name)
		}
	})
	defer tidy()
	if err := j.fill(f); err != nil {
		return nil, err
	}
	var lacks []string
	switch {
	case j.old.info != nil:
		err = applyAttributes(f, j.old, j.opt.Mode)
	case j.opt.Attributes != nil && j.opt.Mode != nil:
		lacks, err = j.opt.Attributes.apply(f, *j.opt.Mode)
	case j.opt.Mode != nil:
		err = unix.Fchmod(int(f.Fd()), rawBits(*j.opt.Mode))
	}
	if err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	noted.Become(j.hash())
	if err := j.ready(); err != nil {
		return nil, err
	}
	if keep, err = j.publish(name); err != nil {
		return nil, err
	}
	j.changed()
	tidy() // clean up before the sync, because the sync then also covers the cleanup
	err = j.dir.sync(j.path.abs)
	j.old.leave()
	return &Written{Created: j.old.info == nil, Refused: lacks, State: tool.FileState{ModTime: info.ModTime()}}, err
}

// ready calls the function opt.Ready before the file changes.
func (j *writeJob) ready() error {
	if j.opt.Ready == nil {
		return nil
	}
	return j.opt.Ready()
}

// changed calls the function opt.Changed after the file has its new content.
func (j *writeJob) changed() {
	if j.opt.Changed != nil {
		j.opt.Changed()
	}
}

// writeChunk is the number of bytes that are written between two checks for cancellation.
const writeChunk = 4 << 20

func (j *writeJob) fill(f *os.File) error {
	for rest := j.data; len(rest) > 0; {
		if err := j.ctx.Err(); err != nil {
			return context.Cause(j.ctx)
		}
		n, err := f.Write(rest[:min(len(rest), writeChunk)])
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// publish renames the new file to the target's name. If the result "keep" is true, the caller must not remove the file
// called name.
func (j *writeJob) publish(name string) (keep bool, err error) {
	verified := j.old.info != nil && j.opt.Expect != nil
	if verified {
		if err := j.old.verify(j.path, j.opt.Expect); err != nil {
			return false, err
		}
	}
	if err := j.ctx.Err(); err != nil {
		return false, context.Cause(j.ctx)
	}
	if j.old.info == nil {
		err := renameNew(&j.dir, name)
		if errors.Is(err, fs.ErrExist) {
			return false, changed(j.path, "it was created meanwhile")
		}
		return err == nil, err
	}
	if verified {
		err := exchange(&j.dir, name)
		if err == nil {
			return j.checkReplaced(name)
		}
		if !unsupported(err) {
			return false, cannotRename(err)
		}
		if now, err := j.dir.root.Lstat(j.dir.base); err != nil || !os.SameFile(now, j.old.info) {
			return false, changed(j.path, "it was replaced")
		}
	}
	if err := j.dir.root.Rename(name, j.dir.base); err != nil {
		return false, cannotRename(err)
	}
	return true, nil
}

// checkReplaced checks the old file after the exchange of names. If another program has replaced or changed the old
// file, checkReplaced reverses the exchange to preserve that program's change.
func (j *writeJob) checkReplaced(name string) (keep bool, err error) {
	aside, err := j.dir.root.Lstat(name)
	switch {
	case err != nil:
		return true, err
	case !os.SameFile(aside, j.old.info):
		err = changed(j.path, "it was replaced")
	default:
		err = j.old.verify(j.path, j.opt.Expect)
	}
	if err == nil {
		return false, nil // the caller then removes the old file
	}
	if back := exchange(&j.dir, name); back != nil {
		return true, tool.Errorf(tool.Conflict, "%s was changed by another program during the write. The other version is %s in the same directory. Compare the two files.",
			j.path.abs, name).WithCause(back)
	}
	return false, err
}

// cannotRename converts errors of a rename to a replaceError if the file can still be written in place. Examples are
// a mount point and another user's file in a sticky directory.
func cannotRename(err error) error {
	if refused(err) || errors.Is(err, syscall.EBUSY) {
		return &replaceError{"the file cannot be replaced by another file", err}
	}
	return err
}

func unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL)
}

// linkNew renames a file by a hard link. It returns an error if the name is in use.
func linkNew(d *pinned, temp string) error {
	err := d.root.Link(temp, d.base)
	if err == nil {
		_ = d.root.Remove(temp)
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := d.root.Lstat(d.base); !errors.Is(err, fs.ErrNotExist) { // the file system supports no hard links
		return fs.ErrExist
	}
	return d.root.Rename(temp, d.base)
}
