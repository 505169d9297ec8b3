package freshness

import "golang.org/x/sys/unix"

// StampOfX converts the result of statx. The result equals that of [StampOf] for the same file.
func StampOfX(st *unix.Statx_t) Stamp {
	return Stamp{
		Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino, Size: int64(st.Size), Mtime: nano(st.Mtime),
		Change: nano(st.Ctime), // #nosec G115 -- sizes of files
		Mode:   uint32(st.Mode), Links: uint64(st.Nlink),
	}
}

func nano(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
