package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// allowed returns an error for clients of other users, and for clients with more restrictions than the
// host. Otherwise a command in the host's sandbox could control the host.
func allowed(conn *net.UnixConn) error {
	uid, err := PeerUser(conn)
	if err == nil && uid != os.Getuid() {
		err = errors.New("the host belongs to another user")
	}
	return err
}

// PeerUser returns the user id of the process that opened a connection. It returns an error if the process runs as the
// host's user but has more restrictions than the host. Such a process could be a command in the host's sandbox.
func PeerUser(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return 0, errors.Join(err, credErr)
	}
	uid := int(cred.Uid)
	if uid != os.Getuid() {
		return uid, nil
	}
	own, err := confinement("self")
	if err != nil {
		return 0, err
	}
	peer, err := confinement(strconv.Itoa(int(cred.Pid)))
	if err != nil {
		return 0, fmt.Errorf("the client of the socket cannot be identified: %w", err)
	}
	if peer.filters > own.filters || peer.noNewPrivs > own.noNewPrivs {
		return 0, errors.New("a program in a sandbox cannot control the host; run the command outside of the host's tools")
	}
	return uid, nil
}

// confined contains restrictions that a process can never remove.
type confined struct{ filters, noNewPrivs int }

func confinement(pid string) (c confined, err error) {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSpace(value))
		switch name {
		case "Seccomp_filters":
			c.filters = n
		case "NoNewPrivs":
			c.noNewPrivs = n
		}
	}
	return c, nil
}
