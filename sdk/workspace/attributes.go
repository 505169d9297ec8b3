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

// applyAttributes copies owner, attributes and mode of the old file to a new file. A mode in the argument "want"
// replaces the old mode. If an attribute cannot be copied, applyAttributes returns a replaceError.
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
			return &replaceError{"a new file would have another owner", err}
		}
	}
	if err := copyAttributes(fd, int(old.file.Fd())); err != nil {
		return err
	}
	// Set the mode last, because a change of the owner clears the setuid bits, and setting an access control list
	// changes the permission bits of the group. Use Fchmod directly, because os.File.Chmod converts the mode.
	mode := rawMode(old.info)
	if want != nil {
		mode = rawBits(*want)
	}
	return unix.Fchmod(fd, mode)
}

// notCopied lists extended attributes that are valid only for the old content. The kernel itself removes some of
// them when a file is written.
var notCopied = []string{Capability, "security.ima", "security.evm"}

// copyAttributes copies the extended attributes of the old file to the new file, including access control lists. It
// removes all other attributes of the new file.
func copyAttributes(to, from int) error {
	want, err := attributes(from)
	if err != nil {
		return err
	}
	have, err := attributes(to) // the new file inherits attributes from its directory
	if err != nil {
		return err
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			if err := unix.Fremovexattr(to, name); err != nil && !strings.HasPrefix(name, "security.") {
				return &replaceError{fmt.Sprintf("a new file would have the additional attribute %s", name), err}
			}
		}
	}
	for name, value := range want {
		if v, ok := have[name]; ok && bytes.Equal(v, value) {
			continue
		}
		if err := unix.Fsetxattr(to, name, value, 0); err != nil {
			return &replaceError{fmt.Sprintf("a new file would lack the attribute %s", name), err}
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

// sized calls the function "get" twice: first to get the size of the value, and then to get the value.
func sized(get func([]byte) (int, error)) ([]byte, error) {
	for range 4 { // retry if the value grows between the two calls
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

// rawMode returns the permission, setuid, setgid and sticky bits of a file in the kernel's format.
func rawMode(info fs.FileInfo) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint32(st.Mode) & 0o7777
	}
	return uint32(info.Mode().Perm())
}

// rawBits returns the permission, setuid, setgid and sticky bits of a mode in the kernel's format.
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

// links returns the number of hard links of a file.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// identity returns a key for a file. The key is the same for all hard links of the file.
func identity(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("inode %d:%d", st.Dev, st.Ino)
	}
	return info.Name()
}
