//go:build !linux

package control

import "net"

// allowed lets everybody in who can enter the directory, which is only the user.
func allowed(*net.UnixConn) error { return nil }
