//go:build !linux

package branch

import "golang.org/x/sys/unix"

// Branches need the overlay file system of Linux. On other systems, nothing calls these functions, because no branch can be
// made.

const (
	openPath  = 0
	noReplace = 1
	exchange  = 2
)

func renameAt(int, string, int, string, uint) error { return unix.ENOTSUP }

func syncAll(int) error { return unix.ENOTSUP }

func openBelow(int, string) (int, error) { return -1, unix.ENOTSUP }

func exchangePaths(string, string) error { return unix.ENOTSUP }

func whiteoutAt(int, string) error { return unix.ENOTSUP }

func duplicateTo(int, int) error { return unix.ENOTSUP }

func birth(string) (int64, bool) { return 0, false }
