package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// Difference is a path that differs between the copy and the original.
type Difference struct {
	Path string
	// Stamp is the state in the copy. Zero means that the copy does not have the path.
	Stamp Stamp
	Size  int64 // on disk, in bytes
}

// IsDir reports whether the copy has a directory at the path.
func (d *Difference) IsDir() bool { return d.Stamp.isDir() }

// Differences lists the changes of the copy, without reading the content of files. A directory that the copy lacks is a
// single difference.
func (m *Mirror) Differences() (out []Difference, err error) {
	if err := m.open(); err != nil {
		return nil, err
	}
	out, err = m.differences()
	return out, m.close(err)
}

func (m *Mirror) differences() (out []Difference, err error) {
	for _, k := range m.known {
		k.seen = false
	}
	opaque := make(map[string]bool) // paths that are not directories or cannot be read
	err = filetree.WalkOwn(m.Tree, 0o500, func(path, rel string, st *unix.Stat_t, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			opaque[rel] = true // entries of an unreadable directory do not count as deleted
			return nil
		}
		if err != nil {
			return err
		}
		now := stampOf(path, st)
		k := m.known[rel]
		if k != nil {
			k.seen = true
		}
		if !now.isDir() {
			opaque[rel] = true
		}
		if k == nil || k.Tree != now {
			out = append(out, Difference{Path: rel, Stamp: now, Size: st.Blocks * 512})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for path, k := range m.known {
		if parent := m.known[filepath.Dir(path)]; !k.seen && parent != nil && parent.seen &&
			!opaque[filepath.Dir(path)] {
			out = append(out, Difference{Path: path})
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// Gather makes the layer contain exactly the changes of the copy. It does not copy a path again that did not change
// after the last Gather.
func (m *Mirror) Gather() error {
	if err := m.open(); err != nil {
		return err
	}
	all, err := m.differences()
	if err == nil {
		err = m.gather(m.deletions(all))
	}
	return m.close(err)
}

// deletions replaces a deleted directory by the files that the copy had in the directory, if the directory of the
// original contains ignored files. The copy did not receive these files, so the program that deleted the directory did
// not see them.
func (m *Mirror) deletions(all []Difference) []Difference {
	var out []Difference
	for _, d := range all {
		k := m.known[d.Path]
		if d.Stamp != (Stamp{}) || k == nil || !k.Base.isDir() || !m.hasMore(d.Path) {
			out = append(out, d)
			continue
		}
		for path, k := range m.known {
			if strings.HasPrefix(path, d.Path+"/") && !k.Base.isDir() {
				out = append(out, Difference{Path: path})
			}
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// hasMore reports whether a directory of the original contains an ignored entry, which the copy did not receive.
func (m *Mirror) hasMore(dir string) (more bool) {
	if m.Ignored == nil {
		return false
	}
	_ = filepath.WalkDir(filepath.Join(m.Base, dir), func(path string, d fs.DirEntry, err error) error {
		if rel := m.relative(m.Base, path); err == nil && m.known[rel] == nil && m.Ignored(rel, d.IsDir()) {
			more = true
			return fs.SkipAll
		}
		return nil
	})
	return more
}

func (m *Mirror) gather(all []Difference) error {
	want := make(map[string]Stamp, len(all))
	for _, d := range all {
		want[d.Path] = d.Stamp
	}
	if err := m.dropOld(want); err != nil {
		return err
	}
	opened, err := filetree.OpenOwn(m.Tree)
	defer opened.Close() //nolint:staticcheck // after an error, it holds what was opened before
	if err != nil {
		return err
	}
	var dirs []string
	for _, d := range all {
		if d.Stamp.isDir() {
			dirs = append(dirs, d.Path)
		}
		if have, ok := m.layered[d.Path]; ok && have.Tree == d.Stamp {
			continue
		}
		if err := m.layer(d); err != nil {
			return err
		}
	}
	if err := m.scaffold(want); err != nil {
		return err
	}
	for _, path := range slices.Backward(dirs) { // at the end, because a directory can be read-only or closed for its owner
		opened.Restore(path)
		if err := m.layerDirectory(path); err != nil {
			return err
		}
	}
	return nil
}

// dropOld removes entries from the layer that are no longer changes of the copy, and entries that a killed process
// left.
func (m *Mirror) dropOld(want map[string]Stamp) error {
	var gone []string
	err := filepath.WalkDir(m.Layer, func(path string, _ fs.DirEntry, err error) error {
		rel := m.relative(m.Layer, path)
		now, st, statErr := stat(path)
		if err = errors.Join(err, statErr); err != nil || rel == "." {
			return err
		}
		have, known := m.layered[rel]
		target, wanted := want[rel]
		if now.isDir() && st.Mode&0o700 != 0o700 {
			_ = os.Chmod(path, 0o700) //nolint:gosec // to read and change it; its mode is set again at the end
		}
		right := known && wanted && have.Layer.renamed(now) && have.Tree == target
		switch {
		case now.isDir() && wanted && target.isDir(), now.isDir() && !wanted && m.isDirectory(rel):
			if !right {
				delete(m.layered, rel)
			}
		case !right || filetree.IsWhiteout(&st) != (target == Stamp{}):
			gone = append(gone, rel)
			if now.isDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	for _, rel := range gone {
		delete(m.layered, rel)
		m.dirty = true
		err = errors.Join(err, filetree.RemoveAll(filepath.Join(m.Layer, rel)))
	}
	for path := range m.layered {
		if at, _, statErr := stat(filepath.Join(m.Layer, path)); statErr != nil || at == (Stamp{}) {
			delete(m.layered, path)
			m.dirty = true
		}
	}
	return err
}

func (m *Mirror) isDirectory(rel string) bool {
	at, err := m.tree.At(rel)
	return err == nil && filetree.IsDirectory(at)
}

// layer copies a path of the copy to the layer.
func (m *Mirror) layer(d Difference) error {
	to := filepath.Join(m.Layer, d.Path)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	from, err := m.tree.At(d.Path)
	if err != nil && d.Stamp != (Stamp{}) {
		return ignoreMissing(err)
	}
	switch d.Stamp.Mode & unix.S_IFMT {
	case 0:
		err = filetree.Mark(to)
	case unix.S_IFDIR:
		if err = os.Mkdir(to, 0o700); errors.Is(err, fs.ErrExist) {
			err = nil
		}
		return err
	case unix.S_IFREG, unix.S_IFLNK, unix.S_IFIFO:
		_, st, statErr := stat(from)
		if err = statErr; err == nil && st.Mode != 0 {
			err = replicate(from, to, &st)
		}
		if now, _, statErr := stat(from); statErr == nil && now.renamed(d.Stamp) {
			d.Stamp = now // reading a file that its owner cannot read changes its ctime
		}
	default:
		return nil // the process that listened on the socket has ended
	}
	if err = ignoreMissing(err); err != nil {
		return err
	}
	return m.record(d, to)
}

// record stores from which state of the copy a path of the layer was copied.
func (m *Mirror) record(d Difference, to string) error {
	now, _, err := stat(to)
	if err == nil && now != (Stamp{}) {
		m.layered[d.Path], m.dirty = layered{Tree: d.Stamp, Layer: now}, true
	}
	return err
}

// layerDirectory copies the metadata of a directory from the copy to the layer.
func (m *Mirror) layerDirectory(path string) error {
	from, err := m.tree.At(path)
	if err != nil {
		return ignoreMissing(err)
	}
	now, st, err := stat(from)
	if err != nil || !now.isDir() {
		return err
	}
	to := filepath.Join(m.Layer, path)
	if err := filetree.Like(to, from, &st); err != nil {
		return err
	}
	return m.record(Difference{Path: path, Stamp: now}, to)
}

// scaffold handles directories that the layer contains only because of their entries. It removes such a directory if it
// is empty. Otherwise, it copies the metadata from the original, or from the copy if the original no longer has the
// directory.
func (m *Mirror) scaffold(want map[string]Stamp) error {
	var dirs []string
	err := filepath.WalkDir(m.Layer, func(path string, d fs.DirEntry, err error) error {
		if rel := m.relative(m.Layer, path); err == nil && d.IsDir() {
			if _, wanted := want[rel]; !wanted {
				dirs = append(dirs, rel)
			}
		}
		return err
	})
	for _, rel := range slices.Backward(dirs) {
		to := filepath.Join(m.Layer, rel)
		if rel != "." && os.Remove(to) == nil {
			continue
		}
		for _, t := range []*filetree.Tree{m.base, m.tree} {
			from, atErr := t.At(rel)
			if now, st, statErr := stat(from); atErr == nil && statErr == nil && now.isDir() {
				err = errors.Join(err, filetree.Like(to, from, &st))
				break
			}
		}
	}
	return err
}
