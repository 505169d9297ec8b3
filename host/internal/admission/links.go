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

	"toolhost.dev/host/internal/state"
)

// writable reports whether tools that can write in the directories can change a file. The file is in one of them, or has
// another name there.
func writable(dirs []string, path string) bool { return within(dirs, path) || linked(dirs, path) }

// maxVisited is the number of files after which the search for another name of a file ends.
const maxVisited = 1 << 20

// visited caches the results of linked. The identity of a file changes with each new name, because its change time does.
var visited sync.Map

// linked reports whether a file has another name in one of the directories, and the user can write the file. A tool
// changes the file under either name. If the directories have too many files, linked returns true.
func linked(dirs []string, path string) bool {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Nlink < 2 || int(sys.Uid) != os.Geteuid() && unix.Access(path, unix.W_OK) != nil {
		return false
	}
	key := state.FileIdentity(path) + "\x00" + strings.Join(dirs, "\x00")
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
