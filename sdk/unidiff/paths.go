package unidiff

import (
	"strconv"
	"strings"
)

// pathOf reads a path as it stands in a header: perhaps quoted, perhaps with a time.
func pathOf(s string) string {
	s = strings.TrimRight(s, " ")
	if strings.HasPrefix(s, `"`) {
		if end := strings.LastIndexByte(s, '"'); end > 0 {
			if path, err := strconv.Unquote(s[:end+1]); err == nil {
				return path
			}
		}
	}
	s, _, _ = strings.Cut(s, "\t")
	return s
}

// unprefix takes a/ and b/ away where they are those of git, and /dev/null.
func unprefix(old, theirs string) (string, string) {
	a, oldPrefixed := strings.CutPrefix(old, "a/")
	b, newPrefixed := strings.CutPrefix(theirs, "b/")
	switch {
	case old == devNull && theirs == devNull:
		return "", ""
	case old == devNull:
		return "", b
	case theirs == devNull:
		return a, ""
	case oldPrefixed && newPrefixed:
		return a, b
	}
	return old, theirs
}

// gitPaths reads the paths of a "diff --git" line. They can only be told apart when they
// are equal or quoted; otherwise the lines that follow name them.
func gitPaths(s string) (old, theirs string) {
	for i := range len(s) {
		if s[i] != ' ' {
			continue
		}
		if old, theirs = unprefix(pathOf(s[:i]), pathOf(s[i+1:])); old == theirs {
			return old, theirs
		}
	}
	return "", ""
}
