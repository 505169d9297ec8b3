package mirror

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// Follow transfers changes of the original to the copy. If a path also changed in the copy, the copy keeps its version.
// The argument "paths" lists absolute paths of the original that can have changed. Nil means that everything can have
// changed.
func (m *Mirror) Follow(paths []string) error {
	if err := m.open(); err != nil {
		return err
	}
	f := &follower{m: m, copier: &copier{m: m}}
	err := f.follow(paths)
	return m.close(err)
}

type follower struct {
	m      *Mirror
	copier *copier
	gone   []string // known paths that no longer exist in the original
	again  bool     // whether a directory became a file, or a file became a directory
}

func (f *follower) follow(paths []string) error {
	if paths == nil {
		for _, k := range f.m.known {
			k.seen = false
		}
		if err := f.transferTree("."); err != nil {
			return err
		}
		for path, k := range f.m.known {
			if !k.seen {
				f.gone = append(f.gone, path)
			}
		}
	} else {
		for _, path := range paths {
			rel, err := filepath.Rel(f.m.Base, path)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			if err := f.path(rel); err != nil {
				return err
			}
		}
	}
	if err := f.remove(); err != nil {
		return err
	}
	if f.again {
		if err := f.transferTree("."); err != nil {
			return err
		}
	}
	return f.copier.finish()
}

// path transfers all changes at and below one path of the original, if there are any.
func (f *follower) path(rel string) error {
	at, err := f.m.base.At(rel)
	now := Stamp{}
	if err == nil {
		now, _, err = stat(at)
	}
	if err = ignoreMissing(err); err != nil {
		return err
	}
	if k := f.m.known[rel]; now == (Stamp{}) || k != nil && k.Base.isDir() != now.isDir() {
		for path := range f.m.known {
			if path == rel || strings.HasPrefix(path, rel+"/") {
				f.gone = append(f.gone, path)
			}
		}
		if now != (Stamp{}) { // the type changed, so first remove the old version
			if err := f.remove(); err != nil {
				return err
			}
		}
	}
	if now == (Stamp{}) {
		return nil
	}
	return f.transferTree(rel)
}

// transferTree transfers changes of the original at a path and below it. The path exists.
func (f *follower) transferTree(top string) error {
	return filetree.Walk(filepath.Join(f.m.Base, top), func(path, rel string, st *unix.Stat_t, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		rel = filepath.Join(top, rel)
		k, now := f.m.known[rel], stampOf(path, st)
		if k == nil && rel != "." && f.m.Ignored != nil && f.m.Ignored(rel, now.isDir()) {
			if now.isDir() {
				return fs.SkipDir
			}
			return nil
		}
		if k != nil && k.Base.isDir() == now.isDir() {
			k.seen = true
		}
		if k == nil || k.Base != now || k.Doubted {
			return f.changed(rel, k, now)
		}
		return nil
	})
}

// changed transfers one changed or new path of the original to the copy, unless the copy has its own
// version.
func (f *follower) changed(rel string, k *pair, now Stamp) error {
	m := f.m
	at, err := m.tree.At(rel)
	if err != nil {
		return ignoreMissing(err) // the copy no longer has the directory
	}
	mine, _, err := stat(at)
	if err != nil {
		return err
	}
	switch absent := mine == (Stamp{}); {
	case k != nil && k.Base.isDir() != now.isDir():
		f.again = true // after remove
		return nil
	case k != nil && absent:
		return nil // deleted in the copy
	case k != nil && k.Base == now && mine == k.Tree:
		k.Doubted, m.dirty = false, true
		return nil
	case k != nil && now.isDir() && mine == k.Tree:
		f.copier.dirs = append(f.copier.dirs, rel)
		return nil
	case now.isDir() && absent:
		return f.copier.directory(rel, now)
	case now.isDir():
		if mine.isDir() { // both have made it
			m.derive(rel, now, Stamp{})
			if m.known[rel].seen = true; mine == now {
				m.known[rel].Tree = mine
			}
		}
		return nil
	case now.Mode&unix.S_IFMT != unix.S_IFREG && now.Mode&unix.S_IFMT != unix.S_IFLNK:
		return nil
	case absent || k != nil && mine == k.Tree:
		err := m.bring(m.base, rel, rel, mine)
		if errors.Is(err, fs.ErrPermission) {
			return nil // the copy keeps its version
		}
		if m.known[rel] != nil {
			m.known[rel].seen = true
		}
		return ignoreMissing(err)
	}
	return f.agree(rel, at, mine, now)
}

// agree records that both sides made the same change.
func (f *follower) agree(rel, at string, mine, now Stamp) error {
	if mine.Mode != now.Mode || mine.Mode&unix.S_IFMT == unix.S_IFREG && mine.Size != now.Size {
		return nil
	}
	from, err := f.m.base.At(rel)
	if err != nil {
		return ignoreMissing(err)
	}
	_, a, errA := stat(from)
	_, b, errB := stat(at)
	if errA != nil || errB != nil {
		return errors.Join(errA, errB)
	}
	if same, err := filetree.Same(from, at, &a, &b); err == nil && same {
		f.m.derive(rel, now, mine)
		f.m.known[rel].seen = true
	}
	return nil
}

// remove removes paths from the copy that no longer exist in the original. It keeps a path that the copy changed.
func (f *follower) remove() error {
	m := f.m
	slices.SortFunc(f.gone, func(a, b string) int { return strings.Compare(b, a) }) // entries before their directory
	for _, rel := range slices.Compact(f.gone) {
		k := m.known[rel]
		if k == nil || rel == "." {
			continue
		}
		at, err := m.tree.At(rel)
		mine := Stamp{}
		if err == nil {
			mine, _, err = stat(at)
		}
		switch {
		case ignoreMissing(err) != nil:
			return err
		case mine == (Stamp{}):
			if at, err := m.base.At(rel); err == nil {
				if now, _, err := stat(at); err == nil && now != (Stamp{}) {
					continue // the copy deleted the path, and the original replaced it
				}
			}
		case mine != k.Tree:
			continue // the copy changed it
		default:
			gone, err := m.unlink(rel, mine)
			if err != nil {
				return err
			}
			if !gone {
				continue // the directory is not empty, or a program changed the file just now
			}
		}
		delete(m.known, rel)
		m.dirty = true
	}
	f.gone = nil
	return nil
}

// unlink removes a file or an empty directory of the copy that has a given state. The result "gone" reports whether the
// path no longer exists. If a program changes the file at the same time, the version of the program stays.
func (m *Mirror) unlink(rel string, old Stamp) (gone bool, err error) {
	if !old.isDir() {
		return m.takeAway(rel, old)
	}
	at, name, err := m.tree.Entry(rel)
	if err != nil {
		return true, ignoreMissing(err)
	}
	err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EACCES) {
		defer filetree.Permit(at, 0o300)()
		err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	err = ignoreMissing(err)
	return err == nil, err
}

// takeAway moves a file of the copy to a temporary path. It removes the file if the file still has the given state.
// Otherwise, it moves the file back.
func (m *Mirror) takeAway(rel string, old Stamp) (gone bool, err error) {
	temporary, err := filetree.Open(m.Temporary)
	if err != nil {
		return false, err
	}
	defer temporary.Close()
	away := filepath.Join(m.Temporary, "gone")
	if err := filetree.RemoveAll(away); err != nil {
		return false, err
	}
	if err := filetree.Rename(m.tree, rel, temporary, filepath.Base(away), filetree.NoReplace); err != nil {
		return errors.Is(err, fs.ErrNotExist), ignoreMissing(err)
	}
	now, _, err := stat(away)
	if err != nil || !now.renamed(old) {
		return false, errors.Join(err, filetree.Rename(temporary, filepath.Base(away), m.tree, rel, filetree.NoReplace))
	}
	return true, filetree.RemoveAll(away)
}
