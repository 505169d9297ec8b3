//go:build !linux

package journal

import "context"

// Lock does nothing, because only Linux has record locks that belong to an open file instead of a process. Each write is
// checked anyway.
func (*Journal) Lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }
