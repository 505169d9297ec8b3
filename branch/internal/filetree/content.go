package filetree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes returns the extended attributes of a path, except the marks of the overlay.
func Attributes(path string) map[string][]byte {
	names := make([]byte, 1024)
	size, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ERANGE) {
		if size, err = unix.Llistxattr(path, nil); err == nil {
			names = make([]byte, size+256)
			size, err = unix.Llistxattr(path, names)
		}
	}
	if err != nil || size == 0 {
		return nil
	}
	var out map[string][]byte
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:size]), "\x00"), "\x00") {
		if name == "" || strings.HasPrefix(name, MarkPrefix) {
			continue
		}
		value := make([]byte, 64<<10)
		if n, err := unix.Lgetxattr(path, name, value); err == nil {
			if out == nil {
				out = make(map[string][]byte)
			}
			out[name] = value[:n]
		}
	}
	return out
}

// SameOwner reports whether two files have the same owner. It returns true if the user is not root, because only root
// can change owners: a copy of another user's file belongs to the user who made the copy.
func SameOwner(a, b *unix.Stat_t) bool {
	return os.Geteuid() != 0 || a.Uid == b.Uid && a.Gid == b.Gid
}

// EqualAttributes reports whether two entries have the same attributes. It ignores the marks of the overlay.
func EqualAttributes(a, b string) bool {
	return maps.EqualFunc(Attributes(a), Attributes(b), bytes.Equal)
}

// Same reports whether two entries of the same type are equal in mode, owner, attributes and content.
func Same(a, b string, sa, sb *unix.Stat_t) (bool, error) {
	regular := sa.Mode&unix.S_IFMT == unix.S_IFREG
	if sa.Mode != sb.Mode || regular && sa.Size != sb.Size || !SameOwner(sa, sb) || !EqualAttributes(a, b) {
		return false, nil
	}
	switch sa.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		x, err := os.Readlink(a)
		y, other := os.Readlink(b)
		return x == y, errors.Join(err, other)
	case unix.S_IFREG:
		return SameContent(a, b)
	}
	return true, nil
}

// SameContent reports whether two files have the same content. It returns false if a file cannot be opened.
func SameContent(a, b string) (bool, error) {
	f, err := OpenRegular(a)
	if err != nil {
		return false, nil // a file that cannot be opened counts as different
	}
	defer f.Close() //nolint:errcheck // only read
	g, err := OpenRegular(b)
	if err != nil {
		return false, nil
	}
	defer g.Close() //nolint:errcheck // only read
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(f, x)
		m, other := io.ReadFull(g, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		for _, e := range []error{err, other} {
			if e != nil && !errors.Is(e, io.EOF) && !errors.Is(e, io.ErrUnexpectedEOF) {
				return false, e
			}
		}
		if err != nil || other != nil {
			return (err == nil) == (other == nil), nil
		}
	}
}

// OpenRegular opens a file for reading. It does not follow a link and does not block on a pipe.
func OpenRegular(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// ReadSmall returns the content of a file. It returns an error if the file has more than limit bytes.
func ReadSmall(path string, limit int64) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = unix.EFBIG
	}
	return text, err
}

// SetAttributes sets extended attributes of a file.
func SetAttributes(path string, all map[string][]byte) error {
	for name, value := range all {
		if err := unix.Lsetxattr(path, name, value, 0); err != nil {
			return fmt.Errorf("the attribute %s cannot be set: %w", name, err)
		}
	}
	return nil
}
