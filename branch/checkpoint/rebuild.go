package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

// rebuild creates a new layer in the directory "to".
func (s *Set) rebuild(to string, t *target) error {
	entries := t.entries
	made := make(map[string]string) // first path of each content, for files with several names
	inodes := make(map[uint64]int)
	for i := range entries {
		inodes[entries[i].Inode]++
	}
	for i := range entries {
		e := &entries[i]
		at := filepath.Join(to, e.Path)
		if first := made[e.Object]; e.Object != "" && first != "" && inodes[e.Inode] > 1 {
			if err := os.Link(first, at); err != nil {
				return err
			}
			continue
		}
		if err := s.rebuildEntry(at, e); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		if e.Object != "" {
			made[e.Object] = at
		}
		killpoint.Pass()
	}
	if err := s.carry(to, t.stay); err != nil {
		return err
	}
	// Last, because new entries change the times of a directory and need write permission.
	for i := range slices.Backward(entries) {
		if e := &entries[i]; e.Mode&unix.S_IFMT == unix.S_IFDIR {
			if err := finishEntry(filepath.Join(to, e.Path), e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Set) rebuildEntry(at string, e *Entry) error {
	var err error
	switch e.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err = os.Mkdir(at, 0o700); err == nil {
			err = filetree.SetAttributes(at, e.Attributes)
		}
		return err
	case unix.S_IFREG:
		err = filetree.CopyFile(s.object(e.Object), at)
	case unix.S_IFLNK:
		err = os.Symlink(e.Target, at)
	case unix.S_IFCHR: // this creates a whiteout; the layer contains no other devices
		return unix.Mknod(at, unix.S_IFCHR, 0)
	default:
		err = unix.Mknod(at, e.Mode, 0)
	}
	if err == nil {
		err = filetree.SetAttributes(at, e.Attributes)
	}
	if err != nil {
		return err
	}
	return finishEntry(at, e)
}

// carry adds hard links to the paths that stay to a new layer.
func (s *Set) carry(to string, stay []string) error {
	var dirs []madeDirectory
	for _, top := range stay {
		if err := s.carryParents(to, filepath.Dir(top), &dirs); err != nil {
			return err
		}
		err := filetree.WalkOwn(filepath.Join(s.Layer, top), 0o500,
			func(path, rel string, st *unix.Stat_t, err error) error {
				at := filepath.Join(to, top, rel)
				switch {
				case err != nil:
					return err
				case st.Mode&unix.S_IFMT != unix.S_IFDIR:
					return os.Link(path, at)
				}
				dirs = append(dirs, madeDirectory{at, *st})
				return errors.Join(os.Mkdir(at, 0o700), filetree.CopyMarks(path, at))
			})
		if err != nil {
			return err
		}
	}
	// Last, because new entries change the times of a directory and need write permission.
	for _, d := range slices.Backward(dirs) {
		if err := filetree.FinishCopy(d.path, &d.st); err != nil {
			return err
		}
	}
	return nil
}

// madeDirectory is a new directory and the state that it gets.
type madeDirectory struct {
	path string
	st   unix.Stat_t
}

// carryParents creates the directories above a path that stays, if they are not in the checkpoint.
func (s *Set) carryParents(to, dir string, dirs *[]madeDirectory) error {
	at := filepath.Join(to, dir)
	var st unix.Stat_t
	if unix.Lstat(at, &st) == nil {
		return nil
	}
	if err := s.carryParents(to, filepath.Dir(dir), dirs); err != nil {
		return err
	}
	from := filepath.Join(s.Layer, dir)
	if err := unix.Lstat(from, &st); err != nil {
		return err
	}
	*dirs = append(*dirs, madeDirectory{at, st})
	return errors.Join(os.Mkdir(at, 0o700), filetree.CopyMarks(from, at))
}

// previewed is the pattern for the names of the directories that Preview makes.
const previewed = ".preview-*"

// previewTime is more than the time that Preview needs.
const previewTime = time.Hour

// RemovePreviews removes directories that killed processes left in Preview. It keeps young ones, because Preview needs
// no lock.
func (s *Set) RemovePreviews() error {
	left, err := filepath.Glob(filepath.Join(s.Dir, previewed))
	for _, path := range left {
		if info, statErr := os.Lstat(path); statErr == nil && time.Since(info.ModTime()) > previewTime {
			err = errors.Join(err, filetree.RemoveAll(path))
		}
	}
	return err
}

// Preview returns the changes that a restore of a checkpoint would make in the branch, as a list and as a diff of about
// limit bytes.
func (s *Set) Preview(number int, rules Rules, limit int) ([]change.Change, string, error) {
	t, err := s.wanted(number, rules)
	if err != nil {
		return nil, "", err
	}
	fresh, err := os.MkdirTemp(s.Dir, previewed)
	if err != nil {
		return nil, "", err
	}
	defer filetree.RemoveAll(fresh) //nolint:errcheck // a later use of the branch removes it
	next := filepath.Join(fresh, upperDir)
	if err := s.rebuild(next, t); err != nil {
		return nil, "", err
	}
	after := change.View{Base: s.Base, Upper: next}
	changes, err := change.Compare(s.view(), after)
	if err != nil {
		return nil, "", err
	}
	return changes, change.ShortDiff(s.view(), after, changes, limit), nil
}
