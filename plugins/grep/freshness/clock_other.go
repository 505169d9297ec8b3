//go:build unix && !linux

package freshness

import "time"

// Now returns the time in nanoseconds.
func Now() int64 { return time.Now().UnixNano() }
