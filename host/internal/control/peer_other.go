//go:build !linux

package control

import (
	"errors"
	"net"
)

// allowed permits every client, because only the user can open the directory of the socket.
func allowed(*net.UnixConn) error { return nil }

// PeerUser always returns an error, because this system does not identify the client of a connection.
func PeerUser(*net.UnixConn) (int, error) {
	return 0, errors.New("clients of a Unix socket cannot be identified on this system; use a token")
}
