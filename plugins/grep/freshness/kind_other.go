//go:build unix && !linux

package freshness

import "os"

// KindOf always returns ByStat.
func KindOf(*os.File) Kind { return ByStat }
