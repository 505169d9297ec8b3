package editor

import (
	"strings"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/unidiff"

	"toolhost.dev/plugins/edit/strategy"
	"toolhost.dev/plugins/edit/validate"
)

// lineBelow searches for the lines in "above", one after the other. It begins at the line with the number "from". It
// returns the number of the line below the last of these lines. Line numbers start at 1. If "above" is empty, lineBelow
// returns 0.
func lineBelow(text []byte, above []string, from int) (int, error) {
	if len(above) == 0 {
		return 0, nil
	}
	all := splitLines(text)
	at := from - 1
	for _, want := range above {
		found := indexLine(all, want, at)
		if found < 0 {
			found = indexLine(all, want, 0) // search from the first line, because the hunks can have any order
		}
		if found < 0 {
			return 0, tool.Errorf(tool.InvalidArguments, "The file has no line %q, which should stand above the hunk. Copy the line after @@ exactly.", strings.TrimSpace(want)).WithCode(validate.NotFound)
		}
		at = found + 1
	}
	return at + 1, nil
}

// splitLines returns the lines of a text without their line endings.
func splitLines(text []byte) []string {
	all := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
	return all
}

// indexLine searches for the line "want", beginning at the index "from". It returns the index of the first equal line,
// or -1. An exact match has priority over a match that ignores blanks at both ends.
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

// endsWith reports whether the lines of a hunk are the last lines of the text.
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

// insertionAt returns the edit for a hunk that only adds lines. The edit replaces the line before or after the added
// lines. The argument "above" is the number of the first added line, or 0 if the hunk does not name the line.
func insertionAt(f *edited, h *unidiff.Hunk, above, drift int) strategy.Edit {
	all := splitLines(f.after)
	before := len(all) // number of lines before the added lines
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
