package repository

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Restore writes an entry of the quarantine back to its original path. It follows no link below the entry's root and
// replaces no file. It appends settings to the end of their file.
func Restore(e *QuarantineEntry) error {
	rel, err := filepath.Rel(e.Root, e.Path)
	if err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is not in %s", e.Path, e.Root)
	}
	root, err := openRoot(e.Root)
	if err != nil {
		return fmt.Errorf("%s cannot be opened: %w", e.Root, err)
	}
	defer root.close()
	dir, name := filepath.Split(rel)
	d, err := root.make(filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("%s cannot be opened: %w. It was moved or removed", filepath.Dir(e.Path), err)
	}
	defer d.close()
	switch {
	case e.Kind == KindSettings:
		err = addSettings(d, name, e)
	case e.Left != "":
		err = moveBack(d, filepath.Base(e.Left), name, e)
	case e.Kind == KindLink:
		err = unix.Symlinkat(string(e.Content), d.fd, name)
	default:
		err = d.write(name, e.Content, e.Mode)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("%s exists again: move it away, then restore the entry", e.Path)
	}
	return err
}

// moveBack renames a file that was renamed but not copied. A file of a repository must be unchanged since its removal.
func moveBack(d directory, left, name string, e *QuarantineEntry) error {
	if st, err := d.stat(left); err == nil && st.IsDir() { // a rename replaces at most an empty directory
		return unix.Renameat(d.fd, left, d.fd, name)
	}
	loaded := e.Why == WhyLoaded
	if !loaded {
		now, err := d.identity(left)
		if err != nil {
			return fmt.Errorf("%s cannot be read: %w", e.Left, err)
		}
		if len(e.Keys) > 0 && !slices.Contains(e.Keys, pathKey(e.Path, now)) {
			return fmt.Errorf("%s was changed after the host moved it there. Read it, and move it to %s yourself", e.Left, e.Path)
		}
	}
	if err := unix.Linkat(d.fd, left, d.fd, name, 0); err != nil { // unlike a rename, a link replaces no file
		return err
	}
	if err := unix.Unlinkat(d.fd, left, 0); err != nil {
		return err
	}
	if now, err := d.identity(name); err == nil && !loaded { // the identity of a large file contains its change time, which the link altered
		e.Keys = []string{pathKey(e.Path, now)}
	}
	return nil
}

// make opens the directory at a relative path. It creates missing directories and follows no link.
func (d directory) make(rel string) (directory, error) {
	made, err := d.open(".")
	for name := range strings.SplitSeq(rel, "/") {
		if err != nil {
			return directory{}, err
		}
		if name == "." {
			continue
		}
		next, opened := made.open(name)
		if errors.Is(opened, fs.ErrNotExist) {
			if opened = unix.Mkdirat(made.fd, name, 0o755); opened == nil {
				next, opened = made.open(name)
			}
		}
		made.close()
		made, err = next, opened
	}
	return made, err
}

// addSettings appends settings to a file, or creates the file.
func addSettings(d directory, name string, e *QuarantineEntry) error {
	if _, err := d.stat(name); errors.Is(err, fs.ErrNotExist) {
		return d.write(name, e.Content, e.Mode)
	}
	err := d.rewrite(name, func(text []byte, _ *unix.Stat_t) ([]byte, error) {
		line := bytes.TrimRight(text, "\r\n")
		if len(text) > 0 && (text[len(text)-1] != '\n' || bytes.HasSuffix(line, []byte(`\`))) { // a trailing backslash would continue the last line
			text = append(text, '\n')
		}
		return append(text, e.Content...), nil
	})
	if err != nil {
		return fmt.Errorf("%s cannot be changed: %w", e.Path, err)
	}
	return nil
}

// write creates a file.
func (d directory) write(name string, content []byte, mode fs.FileMode) error {
	fd, err := d.create(name)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(content)
	return errors.Join(err, unix.Fchmod(fd, uint32(mode.Perm())), f.Close())
}

func fileMode(mode uint32) fs.FileMode { return fs.FileMode(mode) & fs.ModePerm }
