//go:build unix && !linux

package freshness

import "os"

// KindOf says that changes are noticed by stat.
func KindOf(*os.File) Kind { return ByStat }
