package repository

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/stamp"
)

// directory is an open directory. Its methods follow no symbolic link. They continue to act in the same directory if a
// running tool renames the directory.
type directory struct{ fd int }

// openRoot opens the directory at a path.
func openRoot(path string) (directory, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return directory{fd}, err
}

func (d directory) close() { _ = unix.Close(d.fd) } // error ignored, because the descriptor is never used for writing

// open opens the directory at a relative path. It opens one component after the other, so that it follows
// no link.
func (d directory) open(rel string) (directory, error) {
	at, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return directory{}, err
	}
	for name := range strings.SplitSeq(rel, "/") {
		if name == "." || name == "" {
			continue
		}
		if name == ".." {
			_ = unix.Close(at)
			return directory{}, errors.New("a path leads out of its directory")
		}
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(at)
		if err != nil {
			return directory{}, err
		}
		at = next
	}
	return directory{at}, nil
}

// stat returns the state of a name in the directory. For a symbolic link, it returns the state of the link.
func (d directory) stat(name string) (stamp.Stamp, error) {
	var st unix.Stat_t
	before := time.Now()
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stamp.Stamp{}, err
	}
	return stamp.Of(&st, before), nil
}

// maxRead is the size in bytes of the largest file that the guard reads. A larger file is renamed instead of copied.
const maxRead = 8 << 20

var errLarge = errors.New("the file is too large")

// read returns the content and the mode of a regular file. The error is errLarge for a file above maxRead.
func (d directory) read(name string) (content []byte, st unix.Stat_t, err error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, st, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() //nolint:errcheck // only read
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, fmt.Errorf("%s is not a regular file", name)
	}
	content, err = io.ReadAll(io.LimitReader(f, maxRead+1))
	if len(content) > maxRead {
		return nil, st, errLarge
	}
	return content, st, err
}

// readlink returns the target of a symbolic link.
func (d directory) readlink(name string) (string, error) {
	var b [unix.PathMax]byte
	n, err := unix.Readlinkat(d.fd, name, b[:])
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// names returns the entries of a subdirectory, or of the directory itself if the name is ".". It does not
// follow a symbolic link.
func (d directory) names(name string) ([]fs.DirEntry, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)) // file systems that report no file types need this name
	defer f.Close()                                                   //nolint:errcheck // only read
	out, err := f.ReadDir(-1)
	return out, err
}

// identity returns a text that identifies the content of a regular file.
func (d directory) identity(name string) (string, error) {
	text, _, err := d.read(name)
	if errors.Is(err, errLarge) {
		st, err := d.stat(name)
		return stateOf(&st), err
	}
	return hash(text), err
}

// rewrite calls the function "change" with the content of a regular file. It atomically replaces the content
// with the result of change. Meanwhile, it holds git's lock file, so that no change by git is lost. The file keeps its
// mode and owner.
func (d directory) rewrite(name string, change func(text []byte, st *unix.Stat_t) ([]byte, error)) error {
	temp := name + ".lock"
	fd, err := d.create(temp)
	if errors.Is(err, unix.EEXIST) {
		temp = aside(name)
		fd, err = d.create(temp)
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	text, was, err := d.read(name)
	if err == nil {
		text, err = change(text, &was)
	}
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil && os.Geteuid() == 0 && (was.Uid != 0 || was.Gid != 0) {
		err = unix.Fchown(fd, int(was.Uid), int(was.Gid))
	}
	if err == nil {
		err = unix.Fchmod(fd, uint32(was.Mode)&0o777) //nolint:unconvert // 16 bits on other systems
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = unix.Renameat(d.fd, temp, d.fd, name)
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd, temp, 0) // error ignored, because the caller returns the earlier error
	}
	return err
}

func (d directory) create(name string) (int, error) {
	return unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
}

// moveAside renames a file, so that git does not find the file and no program replaces it unnoticed. It returns the new
// name.
func (d directory) moveAside(name string) (string, error) {
	to := aside(name)
	return to, unix.Renameat(d.fd, name, d.fd, to)
}

// aside returns a new name for a file. Git ignores the new name, because names of hooks contain no dot.
func aside(name string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // error ignored, because Read always succeeds
	return strings.TrimLeft(name, ".") + ".quarantined-" + hex.EncodeToString(b[:])
}
