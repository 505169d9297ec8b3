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

	"toolhost.dev/host/internal/stamp"
)

// directory is an open directory. Its methods follow no symbolic link, and act in this directory even if somebody
// renames it meanwhile. Tools can still be running.
type directory struct{ fd int }

// openRoot opens the directory at a path.
func openRoot(path string) (directory, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return directory{fd}, err
}

func (d directory) close() { _ = unix.Close(d.fd) } // nothing was written through it

// open opens the directory at a relative path. It opens one component after the other, so that no link is followed.
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

// stat returns the state of a name in the directory. The name of a link returns the link.
func (d directory) stat(name string) (stamp.Stamp, error) {
	var st unix.Stat_t
	before := time.Now()
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stamp.Stamp{}, err
	}
	return stamp.Of(&st, before), nil
}

// maxRead bounds how much of a file is read, in bytes. A larger file is renamed instead of copied.
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

// names returns the entries of the directory.
func (d directory) names() ([]fs.DirEntry, error) {
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)) // the name serves file systems that report no types
	defer f.Close()                                                   //nolint:errcheck // only read
	out, err := f.ReadDir(-1)
	return out, err
}

// identity returns a text that stands for the content of a regular file.
func (d directory) identity(name string) (string, error) {
	text, _, err := d.read(name)
	if errors.Is(err, errLarge) {
		st, err := d.stat(name)
		return stateOf(&st), err
	}
	return hash(text), err
}

// rewrite replaces a regular file atomically with what change returns for its content. It uses the lock of git, if nobody
// has it, so that a change of git is not lost. Mode and owner stay.
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
		_ = unix.Unlinkat(d.fd, temp, 0) // the first error matters
	}
	return err
}

func (d directory) create(name string) (int, error) {
	return unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
}

// moveAside renames a file, so that git does not find it and nobody replaces it unnoticed. It returns the new name.
func (d directory) moveAside(name string) (string, error) {
	to := aside(name)
	return to, unix.Renameat(d.fd, name, d.fd, to)
}

// aside returns a new name for a file, which git does not use: names of hooks contain no dot.
func aside(name string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.TrimLeft(name, ".") + ".quarantined-" + hex.EncodeToString(b[:])
}
