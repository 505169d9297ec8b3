package text

import (
	"fmt"
	"strings"
)

// FormatSize formats a number of bytes, such as "312 bytes" or "1.5 MiB".
func FormatSize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	unit, v := 0, float64(n)/(1<<10)
	for v >= 1024 && unit < 3 {
		v /= 1024
		unit++
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + [...]string{" KiB", " MiB", " GiB", " TiB"}[unit]
}
