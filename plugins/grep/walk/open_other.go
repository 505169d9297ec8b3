//go:build unix && !linux

package walk

import "os"

func openBeneath(start *os.File, rel string, flags int) (*os.File, error) {
	return openStepwise(start, rel, flags)
}
