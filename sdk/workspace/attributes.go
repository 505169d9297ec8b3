package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// applyAttributes copies everything of the old file except its content to a new one, and sets the mode that
// the caller wants. It returns a replaceError for what cannot be kept.
func applyAttributes(f *os.File, old *current, want *fs.FileMode) error {
	st, ok := old.info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	fd := int(f.Fd())
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return err
	}
	if now.Uid != st.Uid || now.Gid != st.Gid {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return &replaceError{"its owner could not be kept otherwise", err}
		}
	}
	if err := copyAttributes(fd, int(old.file.Fd())); err != nil {
		return err
	}
	// The mode is set last, because a change of owner clears the setuid bits and an access control
	// list changes the group's bits. It is set raw, because os.File.Chmod converts it.
	mode := rawMode(old.info)
	if want != nil {
		mode = rawBits(*want)
	}
	return unix.Fchmod(fd, mode)
}

// notCopied holds the attributes that belong to the content, or that the kernel removes itself
// when a file is written to.
var notCopied = []string{Capability, "security.ima", "security.evm"}

// copyAttributes makes the extended attributes of a new file equal to those of the old one, access
// control lists among them.
func copyAttributes(to, from int) error {
	want, err := attributes(from)
	if err != nil {
		return err
	}
	have, err := attributes(to) // the new file inherits the directory's default list
	if err != nil {
		return err
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			if err := unix.Fremovexattr(to, name); err != nil && !strings.HasPrefix(name, "security.") {
				return &replaceError{fmt.Sprintf("its lack of the attribute %s could not be kept otherwise", name), err}
			}
		}
	}
	for name, value := range want {
		if v, ok := have[name]; ok && bytes.Equal(v, value) {
			continue
		}
		if err := unix.Fsetxattr(to, name, value, 0); err != nil {
			return &replaceError{fmt.Sprintf("its attribute %s could not be kept otherwise", name), err}
		}
	}
	return nil
}

func attributes(fd int) (map[string][]byte, error) {
	list, err := sized(func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
	if err != nil || len(list) == 0 {
		if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) {
			err = nil
		}
		return nil, err
	}
	out := make(map[string][]byte)
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if slices.Contains(notCopied, name) {
			continue
		}
		value, err := sized(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
		if err != nil {
			return nil, &replaceError{fmt.Sprintf("its attribute %s cannot be read", name), err}
		}
		out[name] = value
	}
	return out, nil
}

// sized calls get for the size first, and then for the value.
func sized(get func([]byte) (int, error)) ([]byte, error) {
	for range 4 { // the value may grow in between
		n, err := get(nil)
		if err != nil || n == 0 {
			return nil, err
		}
		buf := make([]byte, n)
		if n, err = get(buf); !errors.Is(err, syscall.ERANGE) {
			return buf[:max(n, 0)], err
		}
	}
	return nil, syscall.ERANGE
}

// rawMode returns the permission bits with setuid, setgid and sticky, as the kernel has them.
func rawMode(info fs.FileInfo) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint32(st.Mode) & 0o7777
	}
	return uint32(info.Mode().Perm())
}

// rawBits returns a mode's permission, setuid, setgid and sticky bits as the kernel has them.
func rawBits(m fs.FileMode) uint32 {
	raw := uint32(m.Perm())
	for _, b := range []struct {
		mode fs.FileMode
		raw  uint32
	}{{fs.ModeSetuid, unix.S_ISUID}, {fs.ModeSetgid, unix.S_ISGID}, {fs.ModeSticky, unix.S_ISVTX}} {
		if m&b.mode != 0 {
			raw |= b.raw
		}
	}
	return raw
}

// links returns the number of names of a file.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// identity returns a key of the file that does not depend on its path.
func identity(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("inode %d:%d", st.Dev, st.Ino)
	}
	return info.Name()
}
