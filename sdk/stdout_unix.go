//go:build unix

package sdk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// claimStdout redirects file descriptor 1 to standard error. Otherwise the output of the plugin or of a library
// could mix with the handshake. It returns the original standard output.
func claimStdout() *os.File {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Dup2(2, 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot protect standard output:", err)
		os.Exit(1)
	}
	os.Stdout = os.NewFile(1, "/dev/stdout")
	return os.NewFile(uintptr(fd), "handshake")
}
