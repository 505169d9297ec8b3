package unidiff

import (
	"strconv"
	"strings"
)

// pathOf parses a path in a header. It may be quoted, and a time may follow it.
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

// unprefix removes the prefixes a/ and b/ if they are git's, and turns /dev/null into an empty
// path.
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

// gitPaths parses the paths of a "diff --git" line. They can be told apart only if they are equal
// or quoted. Otherwise the lines below name them.
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
