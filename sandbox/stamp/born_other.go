//go:build !linux

package stamp

import "time"

// Born returns the zero time, because the creation time of a file is not portable.
func Born(int, string) time.Time { return time.Time{} }
