//go:build !linux

package deadline

import (
	"errors"
	"os"
	"time"
)

var began = time.Now()

// Now returns the time since the start of the process.
func Now() time.Duration { return time.Since(began) }

// Guard exists only on Linux.
type Guard struct{}

// Start returns an error, because this system has no descriptors of processes.
func Start(string, *os.File, func()) (*Guard, error) {
	return nil, errors.New("shared workspaces need Linux, because only there the host can end all processes of a tool at a given time")
}

// Extend does nothing.
func (*Guard) Extend(time.Duration) {}

// Process does nothing.
func (*Guard) Process(int) error { return nil }

// Expire does nothing.
func (*Guard) Expire() error { return nil }

// PID returns 0.
func (*Guard) PID() int { return 0 }

// Close does nothing.
func (*Guard) Close() error { return nil }

// Watch returns the exit status 2, because watchers do not exist on this system.
func Watch() int { return 2 }
