//go:build !linux

package confine

import (
	"fmt"
	"os"
)

// SeccompKnown says whether the system calls of this architecture are known.
const SeccompKnown = false

// LandlockABI gives the version of Landlock that this kernel enforces; 0: none.
func LandlockABI() int { return 0 }

// Main is the launcher, which can do nothing here. It does not return.
func Main() {
	fmt.Fprintln(os.Stderr, "toolhost-sandbox: the sandbox is not supported on this system")
	os.Exit(2)
}
