package workspace

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"toolhost.dev/sdk/tool"
)

// current is the file that a write replaces. The field info is nil if the file does not exist.
type current struct {
	file *os.File // the old file, open for reading
	info fs.FileInfo
}

func (c *current) close() {
	if c.file != nil {
		_ = c.file.Close()
	}
}

// leaveLarge is the minimum size in bytes of a file that the method "leave" closes in the background.
const leaveLarge = 256 << 10

// leave closes the old file after its name was removed. If the file is large, leave closes it in the background,
// because freeing the disk space takes as long as a disk access.
func (c *current) leave() {
	if c.file == nil || c.info.Size() < leaveLarge {
		return // the file is left open; the method close closes it
	}
	go c.file.Close() //nolint:errcheck // it was only read
	c.file = nil
}

// current opens the file at p. If p exists but is not a regular file, the method returns an error.
func (d *pinned) current(p Path) (*current, error) {
	at, err := d.root.Lstat(d.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &current{}, nil
	case err != nil:
		return nil, fail("write", p.abs, err)
	case at.Mode()&fs.ModeSymlink != 0:
		return nil, changed(p, "a symbolic link took its place")
	case !at.Mode().IsRegular():
		return nil, notRegular(p.abs, at.Mode())
	}
	f, info, err := openRegular(d.root, d.base, p.abs)
	if err != nil {
		return nil, err
	}
	if !os.SameFile(at, info) {
		_ = f.Close()
		return nil, changed(p, "it was replaced")
	}
	return &current{file: f, info: info}, nil
}

// check compares the current file with the expected snapshot. It compares the content only if the metadata differs.
// In contrast, verify compares the content in any case.
func (c *current) check(p Path, opt WriteOptions) error {
	switch {
	case opt.New && c.info != nil:
		return tool.Errorf(tool.Conflict, "%s exists already. Read and change the existing file, or choose another name.", p.abs).WithCause(fs.ErrExist)
	case opt.Expect == nil || opt.Expect.untouchedIn(c):
		return nil
	case c.info == nil:
		return changed(p, "it was removed")
	}
	return c.verify(p, opt.Expect)
}

func (s *Snapshot) untouchedIn(c *current) bool { return c.info != nil && s.untouched(c.info) }

// verifyChunk is the number of bytes that verify reads and compares at once.
const verifyChunk = 64 << 10

var chunks = sync.Pool{New: func() any { return new([verifyChunk]byte) }}

// verify reads the file and compares it byte by byte with the expected snapshot.
func (c *current) verify(p Path, expect *Snapshot) error {
	buf, _ := chunks.Get().(*[verifyChunk]byte) // the pool contains only values of this type
	defer chunks.Put(buf)
	rest, f := expect.Data, c.reread()
	for {
		n, err := f.Read(buf[:])
		if n > len(rest) || !bytes.Equal(buf[:n], rest[:n]) {
			return changed(p, "its content changed")
		}
		rest = rest[n:]
		switch {
		case errors.Is(err, io.EOF) && len(rest) > 0:
			return changed(p, "its content changed")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// reread returns the file after seeking to its beginning.
func (c *current) reread() *os.File {
	_, _ = c.file.Seek(0, io.SeekStart)
	return c.file
}

func changed(p Path, how string) error {
	return tool.Errorf(tool.Conflict, "%s was changed by another program since it was read (%s). Nothing was written. Read the file again and repeat the change.", p.abs, how)
}

func elements(rel string) []string {
	if rel == "." {
		return nil
	}
	return strings.Split(rel, "/")
}

// refused reports whether an error means that the system does not permit or support an operation. In this case,
// the caller can try an alternative.
func refused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
