//go:build !linux

package confine

import "os"

// Warden exits, because only Linux has namespaces.
func Warden(int64) { os.Exit(2) }
