// Package mirror keeps a copy of a directory tree. Programs work in the copy in place of the original. The package
// detects changes in the copy and in the original, and transfers changes from one to the other.
//
// [Mirror.Copy] makes the copy. [Mirror.Gather] writes the changes of the copy to a layer, which has the form of the
// upper directory of an overlay. [Mirror.Follow] transfers changes of the original to those paths of the copy that the
// copy did not change. [Mirror.Project] makes the copy show the original with the layer over it.
//
// A Mirror is not safe for concurrent use, neither within one process nor by several processes. Programs can change
// both trees at any time.
package mirror

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/branch/internal/filetree"
)

// Mirror is a copy of a tree. The directories Tree, Layer and Temporary must be on the file system of Base.
type Mirror struct {
	// Base is the original, and Tree is its copy. Layer is the directory with the changes of the copy.
	Base, Tree, Layer string
	// Temporary is an empty directory for files that are being copied.
	Temporary string
	// File is the file that stores the last state in which both trees were equal.
	File string
	// Ignored reports whether a path is left out of the copy. A nil Ignored leaves out nothing.
	Ignored func(path string, dir bool) bool
	// Step is called before each change of the copy. A test can end the process there. It can be nil.
	Step func()

	known   map[string]*pair // by path; nil until it is read
	round   uint64
	again   map[string]*pair // the states of paths that [Mirror.Project] copies again
	layered map[string]layered
	dirty   bool // whether the file is older than known and layered
	base    *filetree.Tree
	tree    *filetree.Tree
}

// Stamp identifies the state of an entry. The Stamp of a directory does not depend on the entries of the directory.
type Stamp struct {
	Inode      uint64
	Size       int64
	Mtime      int64
	Ctime      int64
	Mode       uint32
	Attributes string // a sum; only for directories
}

// pair is the state of a path whose version in the copy was derived from the version in the original. Base is the state
// of that version in the original.
type pair struct {
	Base Stamp
	// Tree is the state in the copy at the last time when the copy and the original were equal. Zero means that they
	// never were.
	Tree Stamp
	// Round is the round in which the copy got this version of the original; see [Mirror.Round].
	Round uint64
	// Doubted means that it is not known from which version of the original the copy has its version; see
	// [Mirror.Doubt].
	Doubted bool

	seen bool
}

// layered describes a path in the layer. Tree is the state in the copy from which the path was copied to the
// layer, and Layer is the state in the layer. A zero Tree means that the copy does not have the path.
type layered struct{ Tree, Layer Stamp }

// saved is the content of [Mirror.File].
type saved struct {
	Known   map[string]*pair
	Layered map[string]layered
	Round   uint64
}

func stampOf(path string, st *unix.Stat_t) Stamp {
	s := Stamp{Mode: uint32(st.Mode)} //nolint:unconvert // not all systems have 32 bits here
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		s.Attributes = sumOf(filetree.Attributes(path))
		return s
	}
	s.Inode, s.Size, s.Mtime, s.Ctime = st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()
	return s
}

// sumOf returns a text that identifies attributes. The text is empty if there are no attributes.
func sumOf(attributes map[string][]byte) string {
	if len(attributes) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		fmt.Fprintf(sum, "%q %q\n", name, attributes[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// isDir reports whether the stamp describes a directory.
func (s Stamp) isDir() bool { return s.Mode&unix.S_IFMT == unix.S_IFDIR }

// renamed reports whether the stamps can belong to the same entry before and after a rename. A rename changes only the
// ctime.
func (s Stamp) renamed(o Stamp) bool {
	s.Ctime, o.Ctime = 0, 0
	return s == o
}

// stat returns the state of an entry. The state of a missing entry is zero.
func stat(path string) (Stamp, unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return Stamp{}, st, nil
	}
	if err != nil {
		return Stamp{}, st, err
	}
	return stampOf(path, &st), st, nil
}

// open reads [Mirror.File], unless it was read before, and opens both trees. The caller must call close.
func (m *Mirror) open() (err error) {
	if m.known == nil {
		text, err := os.ReadFile(m.File)
		var s saved
		if err == nil {
			err = gob.NewDecoder(bytes.NewReader(text)).Decode(&s)
		}
		if err != nil {
			return fmt.Errorf("the description of the copy %s cannot be read: %w", m.Tree, err)
		}
		if m.known, m.layered, m.round = s.Known, s.Layered, s.Round; m.layered == nil {
			m.layered = make(map[string]layered)
		}
	}
	if m.base, err = filetree.Open(m.Base); err != nil {
		return err
	}
	if m.tree, err = filetree.Open(m.Tree); err != nil {
		m.base.Close()
		return err
	}
	return nil
}

// close saves the changed states and closes both trees.
func (m *Mirror) close(err error) error {
	m.base.Close()
	m.tree.Close()
	if m.dirty {
		err = errors.Join(err, m.save())
	}
	return err
}

func (m *Mirror) save() error {
	var text bytes.Buffer
	m.round++
	if err := gob.NewEncoder(&text).Encode(saved{Known: m.known, Layered: m.layered, Round: m.round}); err != nil {
		return err
	}
	m.dirty = false
	return durable.ReplaceUnsynced(m.File, text.Bytes())
}

// Touched reports whether a path changed in the original after the copy received its version of the path. Touched also
// returns true for a path of the original that the copy did not receive.
func (m *Mirror) Touched(path string) bool {
	now, _, err := stat(filepath.Join(m.Base, path))
	k := m.known[path]
	if k == nil {
		return err != nil || now != (Stamp{})
	}
	return err != nil || k.Base != now || k.Doubted
}

// Had reports whether the copy received a path from the original.
func (m *Mirror) Had(path string) bool { return m.known[path] != nil }

// TouchedBelow returns a path below a directory for which [Mirror.Touched] is true. It returns "" if no such path
// exists.
func (m *Mirror) TouchedBelow(dir string) (found string) {
	there := make(map[string]bool)
	_ = filepath.WalkDir(filepath.Join(m.Base, dir), func(path string, _ fs.DirEntry, _ error) error {
		rel := m.relative(m.Base, path)
		if there[rel] = true; m.Touched(rel) {
			found = rel
			return fs.SkipAll
		}
		return nil
	})
	if found != "" {
		return found
	}
	for path := range m.known {
		if strings.HasPrefix(path, dir+"/") && !there[path] {
			return path
		}
	}
	return ""
}

func (m *Mirror) relative(top, path string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, top), "/")
	if rel == "" {
		return "."
	}
	return rel
}

// Load reads [Mirror.File], for methods such as [Mirror.Touched] that do not read the file themselves.
func (m *Mirror) Load() error {
	if err := m.open(); err != nil {
		return err
	}
	return m.close(nil)
}

// Renew declares that the versions of paths in the copy are derived from the current versions in the original. It
// includes everything below these paths. For the directories in dirs, it includes only the directories themselves.
func (m *Mirror) Renew(paths, dirs []string) (err error) {
	if err := m.open(); err != nil {
		return err
	}
	m.forget(paths...)
	restore := m.base.OpenAbove(paths) // an apply can have closed them
	for _, top := range paths {
		walkErr := filetree.WalkOwn(filepath.Join(m.Base, top), 0o500,
			func(path, _ string, st *unix.Stat_t, err error) error {
				m.derive(m.relative(m.Base, path), stampOf(path, st), Stamp{})
				return err
			})
		if !errors.Is(walkErr, fs.ErrNotExist) && !errors.Is(walkErr, unix.ENOTDIR) {
			err = errors.Join(err, walkErr)
		}
	}
	restore()
	for _, dir := range dirs {
		now, _, statErr := stat(filepath.Join(m.Base, dir))
		if k := m.known[dir]; k != nil && statErr == nil {
			m.derive(dir, now, Stamp{})
		}
	}
	return m.close(err)
}

// derive records that the version of a path in the copy is derived from a version in the original.
func (m *Mirror) derive(path string, base, tree Stamp) {
	k := &pair{Base: base, Tree: tree, Round: m.round + 1}
	if old := cmp.Or(m.known[path], m.again[path]); old != nil && old.Base == base {
		k.Round = old.Round
	}
	m.known[path], m.dirty = k, true
}

// Round returns the number of changes of the states so far, for [Mirror.Doubt]. The states must be loaded.
func (m *Mirror) Round() uint64 { return m.round }

// Doubt declares that the layer is one of an earlier round. It is not known from which versions of the original the
// paths are derived that were derived again since then. Such a path counts as touched until the copy and the original
// are equal.
func (m *Mirror) Doubt(round uint64) error {
	if err := m.open(); err != nil {
		return err
	}
	for _, k := range m.known {
		if k.Round > round {
			k.Doubted, m.dirty = true, true
		}
	}
	return m.close(nil)
}

// forget removes the states of paths, and of everything below these paths, from the field "known".
func (m *Mirror) forget(paths ...string) {
	gone := make(map[string]bool, len(paths))
	for _, p := range paths {
		gone[p] = true
	}
	for p := range m.known {
		for at := p; ; at = filepath.Dir(at) {
			if gone[at] {
				delete(m.known, p)
				m.dirty = true
			}
			if at == "." || gone[at] {
				break
			}
		}
	}
}

// Reload makes the next operation read the file again, because another process can have changed it.
func (m *Mirror) Reload() { m.known = nil }
