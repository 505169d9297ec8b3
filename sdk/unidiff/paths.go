package unidiff

import (
	"strconv"
	"strings"
)

// pathOf parses the path in a header line. The path can be quoted, and a time can follow the path.
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

// unprefix removes the prefixes a/ and b/ from two paths if git added them. It converts the path /dev/null to an
// empty path.
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

// gitPaths parses the two paths of a "diff --git" line. The line is unambiguous only if the paths are equal or
// quoted. For an ambiguous line, the paths are taken from the following lines.
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
