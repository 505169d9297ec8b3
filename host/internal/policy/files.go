package policy

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/fingerprint"
	"toolhost.dev/host/internal/stamp"
)

// Files is the file system as a process sees it. All paths are absolute.
type Files interface {
	// Follow resolves the symbolic links in a path, and also the last one. If an element does not exist, the result is the
	// path up to there with the remaining elements.
	Follow(path string) (string, error)
	// Lstat returns the identity of a file, and whether the file is a directory. It follows no link.
	Lstat(path string) (device, inode uint64, dir bool, err error)
	// Names returns the names of at most limit entries of a directory. It follows no link.
	Names(dir string, limit int) ([]string, error)
	// Born returns the time at which a file was created, or the zero time if the file system does not store it.
	Born(path string) time.Time
	// Fingerprint returns the fingerprint of a program, or "" if the path cannot be read; see package fingerprint.
	Fingerprint(path string) string
}

// hostFiles is the file system of the host.
type hostFiles struct{}

func (hostFiles) Follow(path string) (string, error) {
	target, _, err := follow(nil, path)
	return target, err
}

func (hostFiles) Lstat(path string) (device, inode uint64, dir bool, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, 0, false, err
	}
	return uint64(st.Dev), st.Ino, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil //nolint:unconvert // the type depends on the system
}

// Names fails for other files than directories, without waiting for the other end of a named pipe.
func (hostFiles) Names(dir string, limit int) ([]string, error) {
	d, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	names, err := d.Readdirnames(limit)
	if len(names) > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

func (hostFiles) Fingerprint(path string) string {
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	head := make([]byte, fingerprint.Head)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	return fingerprint.Of(f, head[:n], st.Size())
}

func (hostFiles) Born(path string) time.Time { return stamp.Born(unix.AT_FDCWD, path) }

// maxOperations limits the operations on files in one judgement, and the entries of directories that are read. A judgement
// that exceeds a limit is not certain.
var maxOperations = 2_000_000

// maxTime limits the time of one judgement.
var maxTime = 2 * time.Second

// tree is the file system of one judgement. It remembers what it resolved. An error for which no process would fail, or
// the end of the limits, makes it uncertain.
type tree struct {
	files    Files
	followed map[string]string
	tops     map[string]string // repositories by directory
	left     int
	deadline time.Time
	// uncertain reports that something could not be determined.
	uncertain bool
}

func newTree(files Files) *tree {
	if files == nil {
		files = hostFiles{}
	}
	return &tree{files: files, followed: make(map[string]string), tops: make(map[string]string), left: maxOperations, deadline: time.Now().Add(maxTime)}
}

// spend reports whether a number of operations are still within the limits.
func (t *tree) spend(n int) bool {
	if t.left -= n; t.left < 0 || time.Now().After(t.deadline) {
		t.left, t.uncertain = -1, true
		return false
	}
	return true
}

// follow resolves the links in a path. It returns the cleaned path if that fails.
func (t *tree) follow(path string) string {
	if target, known := t.followed[path]; known {
		return target
	}
	if target, missing := t.absent(path); missing {
		return target
	}
	if !t.spend(1 + len(path)/16) {
		return filepath.Clean(path)
	}
	target, err := t.files.Follow(path)
	if err != nil {
		target = filepath.Clean(path)
		t.failed(err)
	}
	t.followed[path] = target
	return target
}

// absent reports whether the last element of a path does not exist, and returns where it would be. That is cheaper than to
// resolve each of many paths in the same directory.
func (t *tree) absent(path string) (target string, missing bool) {
	dir, base := filepath.Split(path)
	if base == "" || base == "." || base == ".." || dir == "" || dir == "/" || !t.spend(1) {
		return "", false
	}
	target = filepath.Join(t.follow(dir), base)
	_, _, _, err := t.files.Lstat(target)
	return target, errors.Is(err, os.ErrNotExist)
}

// failed notes an error. Errors that the process meets as well are not uncertain.
func (t *tree) failed(err error) {
	for _, ordinary := range []error{errLinks, os.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.EACCES, syscall.ENAMETOOLONG, syscall.EINVAL} {
		if errors.Is(err, ordinary) {
			return
		}
	}
	t.uncertain = true
}

// identity identifies a file.
type identity struct{ device, inode uint64 }

// lstat returns the identity of a file.
func (t *tree) lstat(path string) (id identity, dir, ok bool) {
	if !t.spend(1) {
		return identity{}, false, false
	}
	device, inode, dir, err := t.files.Lstat(path)
	if err != nil {
		t.failed(err)
		return identity{}, false, false
	}
	return identity{device, inode}, dir, true
}

func (t *tree) exists(path string) bool {
	_, _, ok := t.lstat(path)
	return ok
}

// names returns the names of at most limit entries of a directory. It returns ok = false for other files.
func (t *tree) names(dir string, limit int) (names []string, ok bool) {
	if !t.spend(1) {
		return nil, false
	}
	names, err := t.files.Names(dir, limit)
	if err != nil {
		t.failed(err)
		return nil, false
	}
	return names, t.spend(len(names))
}

// isEmpty reports whether a path is a directory without entries.
func (t *tree) isEmpty(path string) bool {
	names, ok := t.names(path, 1)
	return ok && len(names) == 0
}

// born returns the time at which a file was created, or the zero time if it is unknown.
func (t *tree) born(path string) time.Time {
	if !t.spend(1) {
		return time.Time{}
	}
	return t.files.Born(path)
}

// older reports whether a file, or a file in a directory, was created before a time. A directory keeps the times of files
// that were moved to it.
func (t *tree) older(path string, than time.Time) bool {
	if !t.born(path).After(than) {
		return true
	}
	if _, dir, _ := t.lstat(path); !dir {
		return false
	}
	names, _ := t.names(path, maxEntries)
	if len(names) == maxEntries {
		t.uncertain = true
	}
	return slices.ContainsFunc(names, func(name string) bool { return t.older(filepath.Join(path, name), than) })
}

// repositoryOf returns the top of the repository that contains a directory. It is empty without a repository.
func (t *tree) repositoryOf(dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	if top, known := t.tops[dir]; known {
		return top
	}
	top := ""
	for at := dir; ; at = filepath.Dir(at) {
		if t.exists(filepath.Join(at, ".git")) {
			top = at
			break
		}
		if at == "/" || at == homeDir() {
			break
		}
	}
	t.tops[dir] = top
	return top
}

// isGitDir reports whether a directory contains the data of a repository.
func (t *tree) isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if !t.exists(filepath.Join(dir, name)) {
			return false
		}
	}
	return true
}

// files returns the file system of the request's operands.
func (req *Request) files() *tree {
	if req.tree == nil {
		req.tree = newTree(nil)
	}
	return req.tree
}
