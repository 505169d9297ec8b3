//go:build !linux

package control

import "net"

// allowed accepts every client, because only the same user can enter the directory.
func allowed(*net.UnixConn) error { return nil }
