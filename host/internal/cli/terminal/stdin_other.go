//go:build !linux

package terminal

import "os"

// StandardInput returns standard input. The function "release" does nothing.
func StandardInput() (in *os.File, release func()) { return os.Stdin, func() {} }
