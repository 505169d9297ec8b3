package tool

import (
	"strconv"
	"strings"
	"time"
)

// ParseDuration parses a duration in a setting: a duration of Go such as "90s" or "36h", or a whole number of days such
// as "14d".
func ParseDuration(s string) (time.Duration, error) {
	if text, days := strings.CutSuffix(s, "d"); days {
		if n, err := strconv.ParseUint(text, 10, 16); err == nil && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	return time.ParseDuration(s)
}
