package walk

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
)

// Stamper returns stamps of entries. It allocates no memory for an entry. It is not safe for concurrent use.
type Stamper struct {
	name [256]byte // name of the entry with a final NUL byte
	stat unix.Statx_t
}

// At returns the stamp of an entry, like [Probe.StampAt].
func (s *Stamper) At(p Probe, name string) (freshness.Stamp, error) {
	if stamp, err := s.statx(p.fd, name); err == nil || isAnswer(err) {
		return stamp, err
	}
	return p.StampAt(name)
}

// statx calls statx without copying the name to the heap. If isAnswer returns false for the error, the system
// does not support statx.
func (s *Stamper) statx(dir int, name string) (freshness.Stamp, error) {
	const mask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_NLINK | unix.STATX_MTIME | unix.STATX_CTIME |
		unix.STATX_INO | unix.STATX_SIZE
	if len(name) >= len(s.name) {
		return freshness.Stamp{}, unix.ENAMETOOLONG
	}
	s.name[copy(s.name[:], name)] = 0
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&s.name)),
		unix.AT_SYMLINK_NOFOLLOW, mask, uintptr(unsafe.Pointer(&s.stat)), 0) // #nosec G103 G115 -- dir is a file descriptor, and both pointers point into the stamper
	switch {
	case errno != 0:
		return freshness.Stamp{}, errno
	case s.stat.Mask&mask != mask:
		return freshness.Stamp{}, unix.ENOSYS
	}
	return freshness.StampOfX(&s.stat), nil
}

// Mount returns the ID of the mount that contains the directory. If the kernel does not report the ID, ok is false.
func (p Probe) Mount() (id uint64, ok bool) {
	var st unix.Statx_t
	err := unix.Statx(p.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID != 0
}
