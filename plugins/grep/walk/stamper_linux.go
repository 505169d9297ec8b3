package walk

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
)

// Stamper looks up entries of probes, without memory for each. It is not safe for concurrent use.
type Stamper struct {
	name [256]byte // with its NUL
	stat unix.Statx_t
}

// At is [Probe.StampAt].
func (s *Stamper) At(p Probe, name string) (freshness.Stamp, error) {
	if stamp, err := s.at(p.fd, name); err == nil || isAnswer(err) {
		return stamp, err
	}
	return p.StampAt(name)
}

// at is [unix.Statx] without a copy of the name on the heap. An error that is no answer says
// that this cannot be.
func (s *Stamper) at(dir int, name string) (freshness.Stamp, error) {
	const mask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_NLINK | unix.STATX_MTIME | unix.STATX_CTIME | unix.STATX_INO | unix.STATX_SIZE
	if len(name) >= len(s.name) {
		return freshness.Stamp{}, unix.ENAMETOOLONG
	}
	s.name[copy(s.name[:], name)] = 0
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&s.name)), unix.AT_SYMLINK_NOFOLLOW, mask, uintptr(unsafe.Pointer(&s.stat)), 0) // #nosec G103 G115 -- a descriptor, and both are the stamper's
	switch {
	case errno != 0:
		return freshness.Stamp{}, errno
	case s.stat.Mask&mask != mask:
		return freshness.Stamp{}, unix.ENOSYS
	}
	return freshness.StampOfX(&s.stat), nil
}

// Mount returns the number of the mount that the directory is reached by; ok is false if the
// system does not tell.
func (p Probe) Mount() (id uint64, ok bool) {
	var st unix.Statx_t
	err := unix.Statx(p.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID != 0
}
