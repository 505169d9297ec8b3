package freshness

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time in nanoseconds, read from the clock that file systems use. A later change never has an earlier
// time.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t); err != nil {
		return time.Now().UnixNano()
	}
	return t.Nano()
}
