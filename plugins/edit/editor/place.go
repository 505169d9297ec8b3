package editor

import (
	"strings"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/unidiff"

	"toolhost.dev/plugins/edit/strategy"
	"toolhost.dev/plugins/edit/validate"
)

// lineBelow returns the number of the line below the lines in above, which follow each other in this order from the given
// line on. Lines are counted from 1. It returns 0 if above is empty.
func lineBelow(text []byte, above []string, from int) (int, error) {
	if len(above) == 0 {
		return 0, nil
	}
	all := splitLines(text)
	at := from - 1
	for _, want := range above {
		found := indexLine(all, want, at)
		if found < 0 {
			found = indexLine(all, want, 0) // the hunks need not be in order
		}
		if found < 0 {
			return 0, tool.Errorf(tool.InvalidArguments, "The file has no line %q, which should stand above the hunk. Copy the line after @@ exactly.", strings.TrimSpace(want)).WithCode(validate.NotFound)
		}
		at = found + 1
	}
	return at + 1, nil
}

// splitLines returns the lines of a text without their ends.
func splitLines(text []byte) []string {
	all := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
	return all
}

// indexLine returns the index of the first line that equals want, starting at the index from. It returns -1 if no line
// does. An exact match is preferred to a match that ignores blanks at both ends.
func indexLine(all []string, want string, from int) int {
	for _, same := range []func(a string) string{func(a string) string { return a }, strings.TrimSpace} {
		for i := max(0, from); i < len(all); i++ {
			if same(all[i]) == same(want) {
				return i
			}
		}
	}
	return -1
}

// endsWith reports whether a text ends with the lines of a hunk.
func endsWith(text []byte, old string) bool {
	all, last := splitLines(text), splitLines([]byte(old))
	if len(all) < len(last) {
		return false
	}
	for i, line := range last {
		if strings.TrimRight(all[len(all)-len(last)+i], " \t") != strings.TrimRight(line, " \t") {
			return false
		}
	}
	return true
}

// insertionAt returns the edit for a hunk that only adds lines: it replaces the line before or after the place. above is
// the number of the line at which the new lines begin, or 0 if the hunk names no line above it.
func insertionAt(f *edited, h *unidiff.Hunk, above, drift int) strategy.Edit {
	all := splitLines(f.after)
	before := len(all) // the number of lines that stay before the new ones
	switch {
	case above > 0:
		before = above - 1
	case h.Inserts:
		before = min(h.Start+drift, len(all))
	}
	e := strategy.Edit{File: f.name, WholeLines: true, From: max(1, before)}
	if before == 0 {
		e.Old, e.New = all[0]+"\n", h.New+all[0]+"\n"
		return e
	}
	e.Old, e.New = all[before-1]+"\n", all[before-1]+"\n"+h.New
	return e
}
