package stamp

import (
	"time"

	"golang.org/x/sys/unix"
)

// Born returns the time at which a file was created, or the zero time if the file system does not store it. A relative
// path begins at the directory with the descriptor dir. An empty path is the file with this descriptor. Born does not
// follow a link at the end of the path.
func Born(dir int, path string) time.Time {
	var st unix.Statx_t
	if unix.Statx(dir, path, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st) != nil ||
		st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}
