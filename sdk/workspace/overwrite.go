package workspace

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/internal/journal"
)

// overwrite writes the file in place. A backup file contains the old content until the new content is on disk.
func (j *writeJob) overwrite(why string) (*Written, error) {
	// Lock the inode, because each hard link of the file has its own lock by path.
	unlock, err := writing.lock(j.ctx, identity(j.old.info))
	if err != nil {
		return nil, err
	}
	defer unlock()
	f, err := j.dir.root.OpenFile(j.dir.base, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, syscall.ETXTBSY) {
			return nil, tool.Errorf(tool.ExecutionFailed, "%s is a running program, so it cannot be overwritten, and it cannot be replaced by a new file either (%s). Stop the program first.", j.path.abs, why).WithCause(err)
		}
		return nil, err
	}
	defer func() { _ = f.Close() }()
	was, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(was, j.old.info) {
		return nil, changed(j.path, "it was replaced")
	}
	if j.opt.Expect != nil {
		if err := j.old.verify(j.path, j.opt.Expect); err != nil {
			return nil, err
		}
	}
	backup, err := j.backup()
	if err != nil {
		return nil, tool.Errorf(tool.PermissionDenied, "%s can only be written in place (%s), and no backup of it can be made: %v. Make its directory or %s writable.",
			j.path.abs, why, cause(err), os.TempDir()).WithCause(err)
	}
	if err := j.ready(); err != nil {
		backup.discard()
		return nil, err
	}
	if err := copyOver(f, j.data, was.Size()); err != nil {
		if lost := backup.restore(f, was.Size()); lost != nil {
			return nil, tool.Errorf(tool.ExecutionFailed, "Writing %s failed (%v), and the old content could not be restored (%v). The old content is in %s.", j.path.abs, cause(err), cause(lost),
				backup.name).WithCause(err)
		}
		backup.discard()
		return nil, err
	}
	mode := rawMode(was)
	if j.opt.Mode != nil {
		mode = rawBits(*j.opt.Mode)
	}
	if now, err := f.Stat(); err == nil && rawMode(now) != mode {
		_ = unix.Fchmod(int(f.Fd()), mode) // set the setuid bits again, because writing clears them
	}
	j.changed()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	backup.discard()
	return &Written{InPlace: why, State: tool.FileState{ModTime: info.ModTime()}}, nil
}

// copyOver writes data over a file of the given size. It first writes the bytes beyond the old end, because only
// these bytes need new disk space. If writing them fails, the file can be truncated to its old content.
func copyOver(f *os.File, data []byte, size int64) error {
	head := min(size, int64(len(data)))
	if _, err := f.WriteAt(data[head:], head); err != nil {
		return err
	}
	if _, err := f.WriteAt(data[:head], 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	return f.Sync()
}

// backup is a copy of the old content.
type backup struct {
	file  *os.File
	name  string // absolute path
	drop  func() error
	noted *journal.Entry
}

// backup copies the old content to the journal's directory, in which recovery finds the copy after a crash. If
// copying fails, it tries the file's directory and then the temporary directory.
func (j *writeJob) backup() (*backup, error) {
	b, err := j.newBackup()
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(b.file, j.old.reread())
	if err == nil {
		err = b.file.Sync()
	}
	if err != nil {
		b.discard()
		return nil, err
	}
	b.noted.Ready(j.hash())
	return b, nil
}

func (j *writeJob) newBackup() (*backup, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	name := tempName()
	if j.journal != nil {
		whole := j.journal.Path(name)
		noted := j.journal.Begin(j.note(whole, true))
		if f, err := os.OpenFile(whole, flags, 0o600); err == nil {
			return &backup{file: f, name: whole, drop: func() error { return os.Remove(whole) }, noted: noted}, nil
		}
		noted.Done()
	}
	if f, err := j.dir.root.OpenFile(name, flags, 0o600); err == nil {
		return &backup{file: f, name: j.sibling(name), drop: func() error { return j.dir.root.Remove(name) }}, nil
	}
	f, err := os.CreateTemp("", "toolhost-backup-*")
	if err != nil {
		return nil, err
	}
	return &backup{file: f, name: f.Name(), drop: func() error { return os.Remove(f.Name()) }}, nil
}

func (b *backup) restore(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	if _, err := b.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(io.NewOffsetWriter(f, 0), b.file); err != nil {
		return err
	}
	return f.Sync()
}

func (b *backup) discard() {
	_ = b.file.Close()
	_ = b.drop()
	b.noted.Done()
}
