package execgate

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the maximum number of symbolic links that the kernel follows in a path.
const maxLinks = 40

// procPath returns a path below the directory of a process in /proc.
func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// file opens the file that a process is about to execute. It resolves the path as the kernel does for the process: in
// its root, and relative to its directory or its descriptors. The caller must close the descriptor.
func file(pid, dirfd int, path, dir string, flags uint64) (int, unix.Errno) {
	if path == "" {
		if flags&unix.AT_EMPTY_PATH == 0 {
			return -1, unix.ENOENT
		}
		return open(procPath(pid, "fd/"+strconv.Itoa(dirfd)))
	}
	if flags&unix.AT_SYMLINK_NOFOLLOW == 0 {
		whole := path
		if path[0] != '/' && dirfd == unix.AT_FDCWD {
			whole = dir + "/" + path
		}
		if whole[0] == '/' {
			if fd, err := inRoot(pid, whole); err == nil {
				return fd, 0
			}
		}
	}
	w := walker{pid: pid, nofollow: flags&unix.AT_SYMLINK_NOFOLLOW != 0}
	fd, _, errno := w.walk(dirfd, path)
	if errno != 0 && fd >= 0 {
		_ = unix.Close(fd)
		fd = -1
	}
	return fd, errno
}

func open(path string) (int, unix.Errno) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	return fd, number(err)
}

func number(err error) unix.Errno {
	var errno unix.Errno
	if err != nil && !errors.As(err, &errno) {
		return unix.EACCES
	}
	return errno
}

// inRoot opens an absolute path in the root of a process. It fails if the path leads through a magic link of /proc.
func inRoot(pid int, path string) (int, error) {
	root, err := unix.Open(procPath(pid, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(root) }()
	return unix.Openat2(root, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// walker resolves a path one component after the other. It is slower than inRoot. But it follows the magic links of
// /proc as the process does.
type walker struct {
	pid, links int
	nofollow   bool
	root       unix.Stat_t
	fd         int // descriptor of the current directory
}

// maxElements limits the number of elements of a path, including the elements of its links.
const maxElements = 4 * unix.PathMax

// walk resolves a path. If it fails, it returns the last directory that it reached, and the remaining elements. The
// descriptor is negative if it reached no directory. The caller must close the descriptor.
func (w *walker) walk(dirfd int, path string) (fd int, rest []string, errno unix.Errno) {
	begin := "root"
	switch {
	case path[0] == '/':
	case dirfd == unix.AT_FDCWD:
		begin = "cwd"
	default:
		begin = "fd/" + strconv.Itoa(dirfd)
	}
	if err := unix.Stat(procPath(w.pid, "root"), &w.root); err != nil {
		return -1, nil, number(err)
	}
	if w.fd, errno = open(procPath(w.pid, begin)); errno != 0 {
		return -1, nil, errno
	}
	rest = strings.Split(path, "/")
	for len(rest) > 0 {
		name := rest[0]
		if name == "" || name == "." || name == ".." && w.atRoot() {
			rest = rest[1:]
			continue
		}
		link, errno := w.step(name, len(rest) == 1)
		if errno != 0 {
			return w.fd, rest, errno
		}
		rest = rest[1:]
		if link == "" {
			continue
		}
		if rest = append(strings.Split(link, "/"), rest...); len(rest) > maxElements {
			return w.fd, rest, unix.ENAMETOOLONG
		}
		if link[0] == '/' {
			if errno := w.move(open(procPath(w.pid, "root"))); errno != 0 {
				return w.fd, rest, errno
			}
		}
	}
	return w.fd, nil, 0
}

// atRoot reports whether the current directory is the root of the process.
func (w *walker) atRoot() bool {
	var st unix.Stat_t
	return unix.Fstat(w.fd, &st) == nil && st.Dev == w.root.Dev && st.Ino == w.root.Ino
}

// move makes a descriptor the current directory.
func (w *walker) move(fd int, errno unix.Errno) unix.Errno {
	if errno == 0 {
		_ = unix.Close(w.fd)
		w.fd = fd
	}
	return errno
}

// step enters a component of the path. If the component is a symbolic link, step returns the target, which the caller
// must follow.
func (w *walker) step(name string, last bool) (link string, errno unix.Errno) {
	var fs unix.Statfs_t
	inProc := unix.Fstatfs(w.fd, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
	if inProc && (name == "self" || name == "thread-self") {
		var st unix.Stat_t
		if unix.Fstat(w.fd, &st) == nil && st.Ino == 1 { // the inode of the root of a procfs
			return w.self(name)
		}
	}
	fd, err := unix.Openat(w.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", number(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return "", number(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", w.move(fd, 0)
	}
	defer func() { _ = unix.Close(fd) }()
	if w.links++; w.links > maxLinks || w.nofollow && last {
		return "", unix.ELOOP
	}
	if inProc {
		target, err := unix.Openat(w.fd, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		return "", w.move(target, number(err))
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(buf[:n]), number(err)
}

// self returns the target of the link /proc/self or /proc/thread-self for the process. The process ids are those in the
// procfs of the process.
func (w *walker) self(name string) (link string, errno unix.Errno) {
	b, err := os.ReadFile(procPath(w.pid, "status"))
	if err != nil {
		return "", number(err)
	}
	id := func(field string) string {
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, field); ok {
				if ids := strings.Fields(rest); len(ids) > 0 {
					return ids[len(ids)-1]
				}
			}
		}
		return ""
	}
	process, thread := id("NStgid:"), id("NSpid:")
	if process == "" || thread == "" {
		return "", unix.ENOENT
	}
	if name == "self" {
		return process, 0
	}
	return process + "/task/" + thread, 0
}

// pathOf returns the path of an open file. For a removed file, the path ends with a remark of the kernel.
func pathOf(fd int) string {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return ""
	}
	return path
}
