package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// Limits limits the size of a copy. Zero means no limit.
type Limits struct {
	Bytes int64
	Files int
}

// TooLargeError means that a tree is larger than the limits permit.
type TooLargeError struct {
	Limits Limits
	// Files reports that the number of files is too large. If Files is false, the total size of the files is too large.
	Files bool
}

func (e *TooLargeError) Error() string {
	if e.Files {
		return fmt.Sprintf("it has more than %d files", e.Limits.Files)
	}
	return fmt.Sprintf("its files have more than %d MiB", e.Limits.Bytes>>20)
}

// Copied describes a copy.
type Copied struct {
	Files, Bytes int64
	// Skipped is the number of entries that were not copied because they are ignored, or because they are pipes,
	// sockets or devices. Unreadable lists files that this user cannot read.
	Skipped    int
	Unreadable []string
}

// maxUnreadable limits [Copied.Unreadable].
const maxUnreadable = 20

// Copy makes the copy. The directory Tree must not exist, and its parent must.
func (m *Mirror) Copy(limits Limits) (Copied, error) {
	m.known, m.layered, m.dirty = make(map[string]*pair), make(map[string]layered), true
	if err := os.Mkdir(m.Tree, 0o700); err != nil {
		return Copied{}, err
	}
	if err := m.open(); err != nil {
		return Copied{}, err
	}
	c := &copier{m: m, limits: limits}
	err := c.copy(".")
	if err == nil {
		err = c.finish()
	}
	return c.Copied, m.close(err)
}

// copier copies a part of the original to paths that the copy does not have.
type copier struct {
	Copied
	m      *Mirror
	limits Limits
	dirs   []string // directories whose modes and times are set last
}

// copy copies a path with everything below it.
func (c *copier) copy(top string) error {
	return filepath.WalkDir(filepath.Join(c.m.Base, top), func(path string, d fs.DirEntry, err error) error {
		rel := c.m.relative(c.m.Base, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was removed meanwhile
		case errors.Is(err, fs.ErrPermission) && d != nil:
			c.unreadable(rel)
			c.m.forget(rel)
			return fs.SkipDir
		case err != nil:
			return err
		case rel != "." && c.m.Ignored != nil && c.m.Ignored(rel, d.IsDir()):
			c.Skipped++
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return c.one(rel)
	})
}

func (c *copier) unreadable(rel string) {
	if len(c.Unreadable) < maxUnreadable {
		c.Unreadable = append(c.Unreadable, rel)
	}
}

// one copies one entry.
func (c *copier) one(rel string) error {
	m := c.m
	at, err := m.base.At(rel)
	if err != nil {
		return ignoreMissing(err)
	}
	before, st, err := stat(at)
	if err != nil || before == (Stamp{}) {
		return err
	}
	if c.Files++; c.limits.Files > 0 && c.Files > int64(c.limits.Files) {
		return &TooLargeError{Limits: c.limits, Files: true}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.directory(rel, before)
	case unix.S_IFREG, unix.S_IFLNK:
		if c.Bytes += st.Size; c.limits.Bytes > 0 && c.Bytes > c.limits.Bytes {
			return &TooLargeError{Limits: c.limits}
		}
	default:
		c.Skipped++
		return nil // pipes, sockets and devices belong to programs that run in the original
	}
	err = m.bring(m.base, rel, rel, Stamp{})
	if errors.Is(err, fs.ErrPermission) {
		c.unreadable(rel)
		return nil
	}
	return ignoreMissing(err)
}

func (c *copier) directory(rel string, base Stamp) error {
	m := c.m
	if rel != "." {
		if err := m.mkdir(rel, base); err != nil {
			return ignoreMissing(err)
		}
	}
	c.dirs = append(c.dirs, rel)
	m.derive(rel, base, Stamp{})
	return nil
}

// mkdir makes a directory of the copy. The owner can write in the directory until the method "finish" sets the final
// mode.
func (m *Mirror) mkdir(rel string, like Stamp) error {
	dir, name, err := m.tree.Entry(rel)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return err
	}
	// Set the mode as far as possible, so that most directories have the right mode even if this process is killed
	// before the end.
	return unix.Fchmodat(dir, name, like.Mode&0o7777|0o700, 0)
}

// finish sets the modes, the times and the attributes of copied directories.
func (c *copier) finish() error {
	m := c.m
	for _, rel := range slices.Backward(c.dirs) {
		from, err := m.base.At(rel)
		to, other := m.tree.At(rel)
		if errors.Join(err, other) != nil || m.known[rel] == nil {
			continue // it was removed meanwhile
		}
		base, st, err := stat(from)
		if err != nil || !base.isDir() {
			continue // as above
		}
		if err := errors.Join(copyAttributes(from, to), filetree.FinishCopy(to, &st)); err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
		mine, _, err := stat(to)
		if err != nil {
			return err
		}
		m.derive(rel, base, mine)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// bring copies a file or a link of the original or of the layer to the copy. It replaces the version of the copy whose
// state is old; a zero state means that the copy does not have the path. It does nothing if the copy has another
// version, or if the file changes while it is read.
func (m *Mirror) bring(from *filetree.Tree, path, to string, old Stamp) error {
	at, err := from.At(path)
	if err != nil {
		return err
	}
	before, st, err := stat(at)
	if err != nil || before == (Stamp{}) || before.isDir() {
		return err
	}
	if m.Step != nil {
		m.Step()
	}
	fresh := filepath.Join(m.Temporary, "file")
	if err := filetree.RemoveAll(fresh); err != nil {
		return err
	}
	if err := replicate(at, fresh, &st); err != nil {
		return err
	}
	if now, _, err := stat(at); err != nil || now != before {
		return err
	}
	if done, err := m.exchange(fresh, to, old); !done || err != nil {
		return err
	}
	if at, err = m.tree.At(to); err != nil {
		return err
	}
	mine, _, err := stat(at)
	if from == m.base {
		m.derive(to, before, mine)
		delete(m.layered, to)
	} else {
		m.layered[to] = layered{Tree: mine, Layer: before}
	}
	m.dirty = true
	return err
}

// replicate copies a file, a link or a pipe with its metadata.
func replicate(from, to string, st *unix.Stat_t) (err error) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		err = filetree.CopyFile(from, to)
	case unix.S_IFLNK:
		var target string
		if target, err = os.Readlink(from); err == nil {
			err = os.Symlink(target, to)
		}
	default:
		err = unix.Mkfifo(to, 0o600) // only the type matters, because an apply never makes a pipe
	}
	if err != nil {
		return err
	}
	return errors.Join(copyAttributes(from, to), filetree.FinishCopy(to, st))
}

// copyAttributes copies the attributes that this user can set.
func copyAttributes(from, to string) error {
	err := filetree.SetAttributes(to, filetree.Attributes(from))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// exchange moves a new file to a path of the copy. If a program writes to the path at the same time, the version of the
// program stays.
func (m *Mirror) exchange(fresh, path string, old Stamp) (bool, error) {
	temporary, err := filetree.Open(m.Temporary)
	if err != nil {
		return false, err
	}
	defer temporary.Close()
	name := filepath.Base(fresh)
	if old == (Stamp{}) {
		err := filetree.Rename(temporary, name, m.tree, path, filetree.NoReplace)
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return err == nil, err
	}
	if err := filetree.Rename(temporary, name, m.tree, path, filetree.Exchange); err != nil {
		return false, ignoreMissing(err)
	}
	displaced, _, err := stat(fresh)
	if err != nil || !displaced.renamed(old) {
		return false, errors.Join(err, filetree.Rename(temporary, name, m.tree, path, filetree.Exchange))
	}
	return true, filetree.RemoveAll(fresh)
}
