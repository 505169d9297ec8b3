package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// backlog of connections that the host has not taken yet.
const backlog = 128

// passListener makes a socket that listens in this network and gives it to the host, which
// answers there from outside. Nothing has to run in here for that.
func passListener(p *Policy) error {
	if !p.OwnNetwork() {
		return errors.New("the sandbox has no separate network")
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(p.ProxyPort), Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("port %d: %w", p.ProxyPort, err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return err
	}
	// The blank is none of the failure that may follow.
	return unix.Sendmsg(p.StatusFD, []byte(" "), unix.UnixRights(fd), nil, 0)
}
