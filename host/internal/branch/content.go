package branch

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// attributesOf returns the extended attributes of a path without the marks of the overlay.
func attributesOf(path string) map[string][]byte {
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
		if name == "" || strings.HasPrefix(name, markPrefix) {
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

// sameOwner compares the owners of two files. Only root can change owners, and the copy of another user's file always
// belongs to the user.
func sameOwner(a, b *unix.Stat_t) bool {
	return os.Geteuid() != 0 || a.Uid == b.Uid && a.Gid == b.Gid
}

func equalAttributes(a, b string) bool {
	return maps.EqualFunc(attributesOf(a), attributesOf(b), bytes.Equal)
}

// same reports whether two entries of the same type are equal in mode, owner, attributes and content.
func same(a, b string, sa, sb *unix.Stat_t) (bool, error) {
	regular := sa.Mode&unix.S_IFMT == unix.S_IFREG
	if sa.Mode != sb.Mode || regular && sa.Size != sb.Size || !sameOwner(sa, sb) || !equalAttributes(a, b) {
		return false, nil
	}
	switch sa.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		x, err := os.Readlink(a)
		y, other := os.Readlink(b)
		return x == y, errors.Join(err, other)
	case unix.S_IFREG:
		return sameContent(a, b)
	}
	return true, nil
}

func sameContent(a, b string) (bool, error) {
	f, err := openRegular(a)
	if err != nil {
		return false, nil // what cannot be read counts as different
	}
	defer f.Close() //nolint:errcheck // only read
	g, err := openRegular(b)
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

// openRegular opens a file for reading. It does not follow a link and does not block on a pipe.
func openRegular(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
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
