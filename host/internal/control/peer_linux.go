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

// allowed returns an error for clients of other users, and for clients with more restrictions than the host. Otherwise a
// command in the host's sandbox could control the host.
func allowed(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return errors.Join(err, credErr)
	}
	if int(cred.Uid) != os.Getuid() {
		return fmt.Errorf("the host belongs to another user")
	}
	own, err := confinement("self")
	if err != nil {
		return err
	}
	peer, err := confinement(strconv.Itoa(int(cred.Pid)))
	if err != nil {
		return fmt.Errorf("the client of the control socket cannot be identified: %w", err)
	}
	if peer.filters > own.filters || peer.noNewPrivs > own.noNewPrivs {
		return errors.New("a program in a sandbox cannot control the host; run the command outside of the host's tools")
	}
	return nil
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
