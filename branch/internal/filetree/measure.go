package filetree

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Beyond is the number of files that Measure returns for a tree whose directories are nested too deeply to be counted.
const Beyond = math.MaxInt

// maxEntered limits the nesting of directories that a measurer enters, because each level needs a descriptor.
const maxEntered = 64

// measurer counts the files in a tree, such as a layer. A session must not be able to hide files from the limits of its
// branch. Therefore a measurer also counts files below paths that are longer than the system permits, and in
// directories that their owner cannot read.
type measurer struct {
	visit func(rel string, dir bool)
	size  int64
	files int
}

// Measure returns the size on disk of the files of a tree in bytes, and the number of files and directories in it. It
// calls the function "visit" for each path, relative to the tree.
func Measure(top string, visit func(rel string, dir bool)) (size int64, files int) {
	m := &measurer{visit: visit}
	var st unix.Stat_t
	if unix.Lstat(top, &st) == nil && unreadable(&st) {
		m.enter(filepath.Dir(top), filepath.Base(top), "", 0)
	} else {
		m.walk(top, "", 0)
	}
	return m.size, m.files
}

// enter counts the content of the directory top/below, whose path is too long for the system or whose owner cannot read
// it. The argument "rel" is the path of the directory in the tree.
func (m *measurer) enter(top, below, rel string, depth int) {
	if depth == maxEntered {
		m.files = Beyond
		return
	}
	dir, err := openIn(top, below)
	if err != nil {
		return // the directory was removed in the meantime
	}
	defer unix.Close(dir) //nolint:errcheck // only opened
	if os.Geteuid() != 0 {
		defer Permit(dir, 0o500)()
	}
	m.walk(Descriptor(dir), rel, depth+1)
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
		m.visit(at, d.IsDir())
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

// unreadable reports whether the owner of a directory cannot read it. It returns false for root, which can read every
// directory.
func unreadable(dir *unix.Stat_t) bool { return LacksOwner(dir, 0o500) }

// parentIn opens the directory of a path below top. It follows no links, because commands can change the layer at the
// same time.
func parentIn(top, below string) (int, error) {
	root, err := unix.Open(top+"/.", OpenPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || filepath.Dir(below) == "." {
		return root, err
	}
	defer unix.Close(root) //nolint:errcheck // only opened
	return OpenBelow(root, filepath.Dir(below))
}

// openIn opens a directory below top.
func openIn(top, below string) (int, error) {
	parent, err := parentIn(top, below)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent) //nolint:errcheck // only opened
	return unix.Openat(parent, filepath.Base(below), OpenPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
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

// SharesData reports whether copies of a workspace's files would share their data with the original files.
func SharesData(base, dir string) (shares bool) {
	_ = filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // another file answers the question
		}
		if info, err := d.Info(); err != nil || info.Size() == 0 {
			return nil //nolint:nilerr // as above
		}
		shares = Shares(path, dir)
		return fs.SkipAll
	})
	return shares
}
