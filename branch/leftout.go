package branch

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

// Programs can recreate most files that git ignores, and these files can be large. Therefore a checkpoint leaves out an
// ignored file or directory that exceeds these limits. The remaining ignored files of a checkpoint together are limited
// to ten times as much.
const (
	maxIgnoredBytes = 10 << 20
	maxIgnoredPaths = 2000
)

// room is the space that a checkpoint has for ignored files. One limit applies to each file or directory, and another
// limit to all remaining files together.
type room struct {
	bytes, allBytes int64
	paths, allPaths int
}

func (r CheckpointRules) room() room {
	bytes := int64(maxIgnoredBytes)
	if r.Bytes > 0 {
		bytes = min(bytes, r.Bytes/100)
	}
	return room{bytes, 10 * bytes, maxIgnoredPaths, 10 * maxIgnoredPaths}
}

var errTooLarge = errors.New("too large")

// take subtracts the size of a file or directory from the room. It returns false if the room is too small.
func (r *room) take(path string) bool {
	bytes, paths := min(r.bytes, r.allBytes), min(r.paths, r.allPaths)
	err := filetree.WalkOwn(path, 0o500, func(_, _ string, st *unix.Stat_t, err error) error {
		paths--
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			bytes -= st.Size
		}
		if bytes < 0 || paths < 0 {
			return errTooLarge
		}
		return err
	})
	if err != nil {
		return false // what cannot be read cannot be stored either
	}
	r.allBytes -= min(r.bytes, r.allBytes) - bytes
	r.allPaths -= min(r.paths, r.allPaths) - paths
	return true
}

// leavesOut reports whether a checkpoint leaves out a path because git ignores the path and its content is too large.
func (t *taker) leavesOut(path, rel string, st *unix.Stat_t) bool {
	if t.ignore == nil || rel == "." || filetree.IsWhiteout(st) || t.unit != "" && strings.HasPrefix(rel, t.unit) || !t.ignore.Ignored(rel, st.Mode&unix.S_IFMT == unix.S_IFDIR) {
		return false
	}
	if !t.room.take(path) {
		return true
	}
	t.unit = rel + "/"
	return false
}

// leaveOut adds an entry without content for a path that is left out. If only such paths are new or changed, nothing
// counts as changed since the last checkpoint, because an undo could not restore these paths.
func (t *taker) leaveOut(rel string, st *unix.Stat_t) error {
	t.c.Ignored++
	e := *entryOf(rel, st)
	e.LeftOut = true
	t.entries = append(t.entries, e)
	if old := t.last[rel]; old == nil {
		t.grown = true
	} else {
		t.known++
		t.same = t.same && old.LeftOut
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fs.SkipDir
	}
	return nil
}

// leftOut returns the paths that a checkpoint leaves out.
func leftOut(entries []entry) (out []string) {
	for i := range entries {
		if entries[i].LeftOut {
			out = append(out, entries[i].Path)
		}
	}
	return out
}

// compare compares the layer with a manifest, as a checkpoint does. It does not store anything.
func (b *Branch) compare(last []entry, rules CheckpointRules) (*taker, error) {
	if err := b.gather(); err != nil {
		return nil, err
	}
	t := b.newTaker(&Checkpoint{}, last, rules)
	t.dry = true
	_, err := t.take()
	return t, err
}

// A target describes the result of a restore.
type target struct {
	// entries lists the entries of the checkpoint that are restored.
	entries []entry
	// stay lists the paths of the layer that stay unchanged with everything below them. The checkpoint left them out,
	// or a checkpoint of the current layer would leave them out. In the second case, the restore could not be undone.
	stay []string
	// lost lists the paths that were left out and no longer exist in the branch.
	lost []string
}

// target returns the result of restoring a checkpoint. The argument "now" lists the paths that a checkpoint of the
// current layer leaves out.
func (b *Branch) target(c *Checkpoint, entries []entry, now []string) (*target, error) {
	out := &target{}
	was := leftOut(entries)
	if c.Ignored > 0 && len(was) == 0 { // an older version made the checkpoint, and left out everything that git ignores
		t := b.newTaker(&Checkpoint{}, nil, CheckpointRules{SkipIgnored: true})
		t.dry, t.room = true, room{}
		all, err := t.take()
		if err != nil {
			return nil, err
		}
		now = leftOut(all)
	}
	all := slices.Concat(was, now)
	slices.Sort(all)
	for _, path := range slices.Compact(all) {
		var st unix.Stat_t
		switch err := unix.Lstat(filepath.Join(b.Layer(), path), &st); {
		case out.stays(path):
		case err != nil && !filetree.IsMissing(err):
			return nil, err
		case err == nil && !filetree.IsWhiteout(&st):
			out.stay = append(out.stay, path)
		default:
			out.lost = append(out.lost, path)
		}
	}
	out.entries = out.restorable(entries)
	return out, nil
}

// restorable returns the entries that a restore can make.
func (t *target) restorable(entries []entry) (out []entry) {
	for i := range entries {
		e := &entries[i]
		if e.LeftOut || t.stays(e.Path) || e.Mode&unix.S_IFMT != unix.S_IFDIR && t.staysBelow(e.Path) {
			continue // a directory that contains such a path also stays
		}
		out = append(out, *e)
	}
	return out
}

// stays reports whether a path stays as it is.
func (t *target) stays(path string) bool {
	return slices.ContainsFunc(t.stay, func(at string) bool { return path == at || strings.HasPrefix(path, at+"/") })
}

// staysBelow reports whether something in a directory stays as it is.
func (t *target) staysBelow(dir string) bool {
	return slices.ContainsFunc(t.stay, func(at string) bool { return dir == "." || strings.HasPrefix(at, dir+"/") })
}

// carry adds hard links to the paths that stay to a new layer.
func (b *Branch) carry(to string, stay []string) error {
	var dirs []madeDirectory
	for _, top := range stay {
		if err := b.carryParents(to, filepath.Dir(top), &dirs); err != nil {
			return err
		}
		err := filetree.WalkOwn(filepath.Join(b.Layer(), top), 0o500, func(path, rel string, st *unix.Stat_t, err error) error {
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
func (b *Branch) carryParents(to, dir string, dirs *[]madeDirectory) error {
	at := filepath.Join(to, dir)
	var st unix.Stat_t
	if unix.Lstat(at, &st) == nil {
		return nil
	}
	if err := b.carryParents(to, filepath.Dir(dir), dirs); err != nil {
		return err
	}
	from := filepath.Join(b.Layer(), dir)
	if err := unix.Lstat(from, &st); err != nil {
		return err
	}
	*dirs = append(*dirs, madeDirectory{at, st})
	return errors.Join(os.Mkdir(at, 0o700), filetree.CopyMarks(from, at))
}
