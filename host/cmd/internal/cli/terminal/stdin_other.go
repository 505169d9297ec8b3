//go:build !linux

package terminal

import "io"

// Input returns a stream that can be closed. The function "release" does nothing.
func Input(stream io.Reader) (in io.ReadCloser, release func()) { return closable(stream), func() {} }
