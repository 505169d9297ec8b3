package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// backlog limits the number of connections that wait for the host to accept them.
const backlog = 128

// passListener opens a listening socket in the plugin's network and sends the socket to the host. The host accepts the
// connections. Therefore the sandbox contains no proxy process.
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
	// The space is sent only because a descriptor must accompany data. It is not part of a failure report.
	return unix.Sendmsg(p.StatusFD, []byte(" "), unix.UnixRights(fd), nil, 0)
}
