// Package killpoint lets tests kill a process at a chosen point between two changes of the disk.
package killpoint

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// killAt is the number of calls of Pass until the process is killed. Zero means never.
var killAt = func() int {
	n, _ := strconv.Atoi(os.Getenv("TOOLHOST_TEST_KILL_AT"))
	return n
}()

// Pass marks a point at which a test can kill the process. If the environment variable TOOLHOST_TEST_KILL_AT is a
// number n, the nth call kills the process.
func Pass() {
	if killAt > 0 {
		if killAt--; killAt == 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
}
