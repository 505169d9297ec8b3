//go:build !linux

package confine

import (
	"fmt"
	"os"
)

// SeccompKnown reports whether this package knows the system calls of the architecture.
const SeccompKnown = false

// LandlockABI returns zero, because this system does not support Landlock.
func LandlockABI() int { return 0 }

// Main reports that this system cannot confine programs. It does not return.
func Main() {
	fmt.Fprintln(os.Stderr, "toolhost-sandbox: the sandbox is not supported on this system")
	os.Exit(2)
}
