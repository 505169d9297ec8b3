package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/descriptor"
)

// statusPipe returns the connection on which the launcher reports its status. The connection is a socket pair if the
// launcher must pass a descriptor or receive a byte. Otherwise it is a pipe.
func statusPipe(socket bool) (ours, theirs *os.File, err error) {
	if !socket {
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

// errNotPassed means that the launcher failed or ended before it passed a descriptor.
var errNotPassed = errors.New("the launcher passed no descriptor")

// receive receives the next descriptor that the launcher passes.
func receive(status *os.File, name string) (*os.File, error) {
	_ = status.SetReadDeadline(time.Now().Add(launchTimeout))
	raw, err := status.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob := make([]byte, descriptor.Space)
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		// The launcher sends one space with each descriptor. Other bytes are the report of a failure, which the caller
		// reads.
		var first [1]byte
		if n, _, failed = unix.Recvfrom(int(fd), first[:], unix.MSG_PEEK); failed == nil &&
			(n == 0 || first[0] != ' ') {
			failed = errNotPassed
		}
		if failed == nil {
			_, n, _, _, failed = unix.Recvmsg(int(fd), first[:], oob, unix.MSG_CMSG_CLOEXEC)
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	f, err := descriptor.One(oob[:n], name)
	if err != nil {
		return nil, errNotPassed
	}
	return f, nil
}

// receiveListener receives the listening socket of the proxy.
func receiveListener(status *os.File) (net.Listener, error) {
	f, err := receive(status, "proxy")
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the listener has its own
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the launcher passed an invalid socket: %w", err)
	}
	return l, nil
}
