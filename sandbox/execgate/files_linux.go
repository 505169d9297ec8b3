package execgate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/stamp"
)

// processFiles implements [Files] for a stopped process. It uses the root and the mounts of this process, and the links
// in /proc that this process sees. It opens the root on first use. Only one goroutine can use it.
type processFiles struct {
	pid int
	// valid reports whether the process is still stopped. If not, its id can belong to another process.
	valid func() bool

	opened bool
	root   int
	failed error
}

// errGone means that a process ended while it was judged.
var errGone = errors.New("the process has ended")

// open opens the root of the process.
func (f *processFiles) open() error {
	if f.opened {
		return f.failed
	}
	f.opened = true
	if f.root, f.failed = unix.Open(procPath(f.pid, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC,
		0); f.failed != nil {
		return f.failed
	}
	switch {
	case !f.valid():
		f.failed = errGone
	case pathOf(f.root) != "/": // the root was changed, so paths of open files would not be relative to it
		f.failed = fmt.Errorf("the root of the process is %s", pathOf(f.root))
	}
	return f.failed
}

// close closes the root. After close, all methods return an error.
func (f *processFiles) close() {
	if f.opened && f.failed == nil {
		_ = unix.Close(f.root)
	}
	f.opened, f.failed = true, errGone
}

// openat opens a path. It fails if the path contains a magic link of /proc.
func (f *processFiles) openat(path string, flags int) (int, error) {
	if err := f.open(); err != nil {
		return -1, err
	}
	return unix.Openat2(f.root, path, &unix.OpenHow{
		Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// Follow resolves the links in an absolute path. If an element does not exist, Follow appends the remaining elements
// unresolved.
func (f *processFiles) Follow(path string) (string, error) {
	fd, err := f.openat(path, unix.O_PATH)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		return pathOf(fd), nil
	}
	if f.failed != nil {
		return "", f.failed
	}
	w := walker{pid: f.pid}
	fd, rest, errno := w.walk(unix.AT_FDCWD, path)
	if fd >= 0 {
		defer func() { _ = unix.Close(fd) }()
	}
	switch {
	case !f.valid():
		return "", errGone
	case errno == 0:
		return pathOf(fd), nil
	case fd >= 0 && (errno == unix.ENOENT || errno == unix.ENOTDIR || errno == unix.EACCES):
		return filepath.Join(pathOf(fd), strings.Join(rest, "/")), nil
	}
	return "", errno
}

// Lstat returns the identity of a file, and whether the file is a directory.
func (f *processFiles) Lstat(path string) (device, inode uint64, dir bool, err error) {
	fd, err := f.openat(path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return 0, 0, false, err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Dev, st.Ino, st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// Names returns the names of at most limit entries of a directory.
func (f *processFiles) Names(dir string, limit int) ([]string, error) {
	fd, err := f.openat(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close() //nolint:errcheck // only read
	names, err := d.Readdirnames(limit)
	if len(names) > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// Fingerprint returns the fingerprint of a program, or "" if the path cannot be read.
func (f *processFiles) Fingerprint(path string) string {
	fd, err := f.openat(path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ""
	}
	_, content, _ := look(fd, st.Size)
	return content
}

// Born returns the time at which a file was created, or the zero time if the file system does not store it.
func (f *processFiles) Born(path string) time.Time {
	fd, err := f.openat(path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return time.Time{}
	}
	defer func() { _ = unix.Close(fd) }()
	return stamp.Born(fd, "")
}
