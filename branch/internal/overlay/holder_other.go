//go:build !linux

package overlay

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Holder has no function on this system.
type Holder struct{}

var errSystem = errors.New("branches need the overlay file system of Linux")

// Start returns an error.
func Start(string, string, []string, string, string, *os.File) (*Holder, error) {
	return nil, errSystem
}

// Clone returns an error.
func (*Holder) Clone() (*os.File, error) { return nil, errSystem }

// Refresh returns an error.
func (*Holder) Refresh() error { return errSystem }

// Alive returns false.
func (*Holder) Alive() bool { return false }

// Close does nothing.
func (*Holder) Close() {}

// Unsupported returns the reason why this system has no overlays.
func Unsupported(string) error { return errSystem }

// Lingering returns 0, because no process can have an overlay.
func Lingering(string) (int, error) { return 0, nil }

// BootID identifies the boot of the machine.
func BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// ClockOffset returns false, because only the times of an overlay's base are compared with a clock.
func ClockOffset() (offset int64, known bool) { return 0, false }
