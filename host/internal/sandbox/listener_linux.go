package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// statusPipe returns the connection on which the launcher reports its status. It is a pair of sockets if the launcher
// passes a descriptor, otherwise a pipe.
func statusPipe(passes bool) (ours, theirs *os.File, err error) {
	if !passes {
		return os.Pipe()
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "status"), os.NewFile(uintptr(fds[1]), "status"), nil
}

// receiveListener receives the listening socket, which is the first message of the launcher.
func receiveListener(status *os.File) (net.Listener, error) {
	_ = status.SetReadDeadline(time.Now().Add(launchTimeout))
	raw, err := status.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		// Read only one byte. Any following bytes describe a failure and are read by the caller.
		_, n, _, _, failed = unix.Recvmsg(int(fd), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("the launcher passed no socket")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("the launcher passed no socket")
	}
	f := os.NewFile(uintptr(fds[0]), "proxy")
	defer f.Close() //nolint:errcheck // the listener has its own
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the launcher passed an invalid socket: %w", err)
	}
	return l, nil
}
