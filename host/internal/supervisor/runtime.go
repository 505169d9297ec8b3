package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

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

// The function "sweep" removes the socket directories of ended hosts.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		_ = os.RemoveAll(filepath.Join(base, e.Name()))
	}
}
