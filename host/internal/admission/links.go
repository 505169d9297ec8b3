package admission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/state/records"
)

// writable reports whether tools with write access to the directories can change a file. They can if the
// file or another hard link to the file is in one of the directories.
func writable(dirs []string, path string) bool { return within(dirs, path) || linked(dirs, path) }

// maxVisited is the number of files after which the search for hard links ends.
const maxVisited = 1 << 20

// The map "visited" caches the results of the function "linked". A new hard link changes the change time of a file, and
// therefore its identity.
var visited sync.Map

// linked reports whether the user can write a file and one of the directories contains a hard link to the
// file. A tool can change the file through the link. If the directories have too many files, the function returns true.
func linked(dirs []string, path string) bool {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Nlink < 2 || int(sys.Uid) != os.Geteuid() && unix.Access(path, unix.W_OK) != nil {
		return false
	}
	key := records.Identity(path) + "\x00" + strings.Join(dirs, "\x00")
	if found, ok := visited.Load(key); ok {
		return found.(bool) //nolint:forcetypeassert // only this function stores values
	}
	found := search(dirs, st)
	visited.Store(key, found)
	return found
}

var errFound = errors.New("found")

func search(dirs []string, wanted os.FileInfo) bool {
	left := maxVisited
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if left--; left < 0 {
				return errFound
			}
			if err != nil || !e.Type().IsRegular() {
				return nil //nolint:nilerr // what the host cannot read, tools cannot read
			}
			if st, err := e.Info(); err == nil && os.SameFile(st, wanted) {
				return errFound
			}
			return nil
		})
		if errors.Is(err, errFound) {
			return true
		}
	}
	return false
}
