//go:build !linux

package shim

import "os"

// pointAt returns nil, because on this system clients can only connect to the path of a socket.
func pointAt(string) (*os.File, error) { return nil, nil } //nolint:nilnil // as Server.Inherit has it
