package checkpoint

import (
	"bytes"
	"maps"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// Entry is a path of a layer in a manifest.
type Entry struct {
	Path       string
	Mode       uint32
	Uid, Gid   uint32 //nolint:revive // as in unix.Stat_t
	Size       int64
	Inode      uint64
	Ctime      int64
	Atime      int64
	Mtime      int64
	Target     string
	Attributes map[string][]byte
	Object     string // name of the stored content; empty if none is stored
	LeftOut    bool   // whether the content and everything below the path are left out
}

// entryOf returns an entry with the state of a file, but without its content and its attributes.
func entryOf(path string, st *unix.Stat_t) *Entry {
	return &Entry{Path: path, Mode: uint32(st.Mode), Uid: st.Uid, Gid: st.Gid, Size: st.Size, Inode: st.Ino, Ctime: st.Ctim.Nano(), Atime: st.Atim.Nano(), Mtime: st.Mtim.Nano()} //nolint:unconvert // not all systems have 32 bits here
}

// ownAttributes returns the attributes of an entry without the marks of the overlay.
func (e *Entry) ownAttributes() map[string][]byte {
	out := maps.Clone(e.Attributes)
	maps.DeleteFunc(out, func(name string, _ []byte) bool { return strings.HasPrefix(name, filetree.MarkPrefix) })
	return out
}

// unchanged reports whether a path has the same content as when the entry was made. This is reliable, because programs
// cannot set the ctime.
func (e *Entry) unchanged(st *unix.Stat_t) bool {
	return e.Inode == st.Ino && e.Ctime == st.Ctim.Nano() && e.Size == st.Size && e.Mode == uint32(st.Mode) //nolint:unconvert // not all systems have 32 bits here
}

// whiteout reports whether the entry hides a path of the base.
func (e *Entry) whiteout() bool { return e.Mode&unix.S_IFMT == unix.S_IFCHR }

// sameDirectory compares two entries of a directory. It ignores the times of the directory and most of its marks,
// because the kernel can change them when it only reads.
func (e *Entry) sameDirectory(old *Entry) bool {
	own := func(all map[string][]byte) map[string][]byte {
		out := maps.Clone(all)
		maps.DeleteFunc(out, func(name string, _ []byte) bool {
			return strings.HasPrefix(name, filetree.MarkPrefix) && name != filetree.OpaqueMark
		})
		return out
	}
	return e.Mode == old.Mode && e.Uid == old.Uid && e.Gid == old.Gid &&
		maps.EqualFunc(own(e.Attributes), own(old.Attributes), bytes.Equal)
}

// finishEntry sets the owner, the mode and the times of an entry.
func finishEntry(path string, e *Entry) error {
	st := &unix.Stat_t{Uid: e.Uid, Gid: e.Gid, Atim: unix.NsecToTimespec(e.Atime), Mtim: unix.NsecToTimespec(e.Mtime)}
	filetree.SetMode(st, e.Mode)
	return filetree.FinishCopy(path, st)
}
