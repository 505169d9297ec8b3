package branch

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Beyond is the number of files that Usage returns if directories of a layer are nested too deeply to be counted.
const Beyond = math.MaxInt

// maxEntered limits how many directories a measurer enters in each other, because each of them costs a descriptor.
const maxEntered = 64

// measurer counts what is in a layer. A session must not hide files from the limits of its branch, neither below paths that
// are longer than the system permits, nor in directories that their owner cannot read.
type measurer struct {
	visit func(rel string, d fs.DirEntry)
	size  int64
	files int
}

// enter counts what is in a directory that the path top/below does not open. rel is its path in the layer.
func (m *measurer) enter(top, below, rel string, depth int) {
	if depth == maxEntered {
		m.files = Beyond
		return
	}
	dir, err := openIn(top, below)
	if err != nil {
		return // it disappeared meanwhile
	}
	defer unix.Close(dir) //nolint:errcheck // only opened
	if os.Geteuid() != 0 {
		defer permit(dir, 0o500)()
	}
	m.walk(descriptor(dir), rel, depth+1)
}

func (m *measurer) walk(top, rel string, depth int) {
	_ = filepath.WalkDir(top+"/.", func(path string, d fs.DirEntry, err error) error {
		below := strings.TrimPrefix(path, top+"/")
		at := filepath.Join(rel, below)
		switch {
		case below == ".":
			return nil
		case errors.Is(err, unix.ENAMETOOLONG):
			m.enter(top, below, at, depth)
			return nil
		case err != nil:
			return nil //nolint:nilerr // what disappears meanwhile does not count
		}
		st, err := lstatIn(top, below)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		if m.files < Beyond {
			m.files++
		}
		m.visit(at, d)
		switch {
		case d.Type().IsRegular():
			m.size += st.Blocks * 512
		case d.IsDir() && unreadable(&st):
			m.enter(top, below, at, depth)
			return fs.SkipDir
		}
		return nil
	})
}

// unreadable reports whether the owner of a directory cannot read it. Only root reads it nevertheless.
func unreadable(dir *unix.Stat_t) bool { return dir.Mode&0o500 != 0o500 && os.Geteuid() != 0 }

// parentIn opens the directory of a path below top. It follows no link, because commands change the layer meanwhile.
func parentIn(top, below string) (int, error) {
	root, err := unix.Open(top+"/.", openPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || filepath.Dir(below) == "." {
		return root, err
	}
	defer unix.Close(root) //nolint:errcheck // only opened
	return openBelow(root, filepath.Dir(below))
}

// openIn opens a directory below top.
func openIn(top, below string) (int, error) {
	parent, err := parentIn(top, below)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent) //nolint:errcheck // only opened
	return unix.Openat(parent, filepath.Base(below), openPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// lstatIn is Lstat for a path below top, which can be longer than the system permits.
func lstatIn(top, below string) (st unix.Stat_t, err error) {
	if err = unix.Lstat(filepath.Join(top, below), &st); !errors.Is(err, unix.ENAMETOOLONG) {
		return st, err
	}
	parent, err := parentIn(top, below)
	if err != nil {
		return st, err
	}
	defer unix.Close(parent) //nolint:errcheck // only opened
	return st, unix.Fstatat(parent, filepath.Base(below), &st, unix.AT_SYMLINK_NOFOLLOW)
}
