package checkpoint

import (
	"errors"
	"io/fs"
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

// room limits the ignored files in a checkpoint. The fields "bytes" and "paths" limit each file or directory. The
// fields allBytes and allPaths limit the total of all files that can still be added.
type room struct {
	bytes, allBytes int64
	paths, allPaths int
}

func (r Rules) room() room {
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
	if t.ignore == nil || rel == "." || filetree.IsWhiteout(st) || t.unit != "" && strings.HasPrefix(rel, t.unit) ||
		!t.ignore.Ignored(rel, st.Mode&unix.S_IFMT == unix.S_IFDIR) {
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
func leftOut(entries []Entry) (out []string) {
	for i := range entries {
		if entries[i].LeftOut {
			out = append(out, entries[i].Path)
		}
	}
	return out
}
