//go:build unix

// Package descriptor reads file descriptors that another process passed over a Unix socket. [One] is for messages with
// a single descriptor.
package descriptor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Space is the size of a buffer for the control message with one descriptor.
var Space = unix.CmsgSpace(4)

// All returns the descriptors in control messages. Programs that the process starts do not inherit them.
func All(oob []byte) (out []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		fds, bad := unix.ParseUnixRights(&messages[i])
		if bad != nil {
			continue // another kind of message
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		out = append(out, fds...)
	}
	return out, err
}

// One returns the only descriptor in control messages as a file with a name. If there are more, it closes all and
// returns an error, because the sender is not the expected one.
func One(oob []byte, name string) (*os.File, error) {
	fds, err := All(oob)
	if err != nil || len(fds) != 1 {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, fmt.Errorf("%s: the message has %d descriptors, and not one", name, len(fds))
	}
	return os.NewFile(uintptr(fds[0]), name), nil
}
