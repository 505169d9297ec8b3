//go:build !linux

package terminal

import "os"

// StandardInput returns standard input. release does nothing.
func StandardInput() (in *os.File, release func()) { return os.Stdin, func() {} }
