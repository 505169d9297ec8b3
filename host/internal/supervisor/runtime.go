package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var supervisors atomic.Int64 // the number of supervisors in this process that created a runtime directory

// runtimeName returns the name of the runtime directory of one supervisor. A program can have several hosts, and a host
// that closes removes only its own directory.
func runtimeName() string {
	if n := supervisors.Add(1); n > 1 {
		return fmt.Sprintf("%d.%d", os.Getpid(), n)
	}
	return strconv.Itoa(os.Getpid())
}

// ownedPrivately returns an error if another user can have created a directory. This is possible if other users can
// write to the parent directory.
func ownedPrivately(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || !ok || int(sys.Uid) != os.Getuid() || st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a directory of this user with mode 0700; remove it, or set XDG_RUNTIME_DIR", dir)
	}
	return nil
}

// sweep removes the runtime directories of ended hosts.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		_ = os.RemoveAll(filepath.Join(base, e.Name()))
	}
}
