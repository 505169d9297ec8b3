//go:build !linux && !darwin

package filetree

import (
	"os"

	"golang.org/x/sys/unix"
)

// These systems do not support branches, so nothing calls these functions.

// OpenPath contains the flags to open an entry only as a reference.
const OpenPath = 0

// errNoAttribute is the error for a missing extended attribute.
const errNoAttribute = unix.ENOATTR

// Flags of a rename.
const (
	NoReplace = 1
	Exchange  = 2
)

func renameAt(int, string, int, string, uint) error { return unix.ENOTSUP }

// SyncAll waits until the file system of a directory is on disk.
func SyncAll(int) error { return unix.ENOTSUP }

// OpenBelow opens a directory below another without following links.
func OpenBelow(int, string) (int, error) { return -1, unix.ENOTSUP }

// ExchangePaths atomically exchanges two paths.
func ExchangePaths(string, string) error { return unix.ENOTSUP }

// WhiteoutAt creates a whiteout, which marks a name as deleted.
func WhiteoutAt(int, string) error { return unix.ENOTSUP }

// DuplicateTo makes the descriptor "to" a duplicate of the descriptor "from".
func DuplicateTo(int, int) error { return unix.ENOTSUP }

// Birth returns the time at which a file was created, in nanoseconds.
func Birth(string) (int64, bool) { return 0, false }

func copyContent(in *os.File, to string) error { return copyData(in, to) }

// Shares reports whether copies of a file in a directory share the data of the file. Such copies are fast and need no
// space.
func Shares(string, string) bool { return false }

// Descriptor returns a path that leads to the file or directory of a descriptor.
func Descriptor(int) string { return "" }

func mknod(string, *unix.Stat_t) error { return unix.ENOTSUP }

func share(_, _ *os.File) error { return unix.ENOTSUP }

// MountID identifies the mount in which a path is. It returns false, because this system has one mount of a file
// system.
func MountID(string) (id uint64, known bool) { return 0, false }
