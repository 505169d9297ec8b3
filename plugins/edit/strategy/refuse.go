package strategy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is the reason why an edit is refused.
type Kind int

// The reasons for refusing an edit.
const (
	NotFound   Kind = iota + 1
	Ambiguous       // old_string matches at several places
	NoChange        // the file would not change
	Incomplete      // new_string omits code
	Refused         // the edit cannot be correct
)

// Error describes why an edit is refused.
type Error struct {
	Kind    Kind
	Message string
	// Sites contains the numbers of the lines at which an ambiguous text occurs. Lines are counted from 1.
	Sites []int
	// More means that the text also occurs at places that Sites does not contain.
	More bool
}

func (e *Error) Error() string { return e.Message }

func refused(format string, a ...any) error {
	return &Error{Kind: Refused, Message: "The edit is refused: " + fmt.Sprintf(format, a...)}
}

func noChange(why string) error {
	return &Error{Kind: NoChange, Message: "There is nothing to change: " + why}
}

// maxShownSites limits the number of line numbers in a message.
const maxShownSites = 10

func (s *search) ambiguous(name string, sites []site) error {
	e := &Error{Kind: Ambiguous, More: len(sites) > maxShownSites}
	var at []string
	last := -1
	for _, st := range sites[:min(len(sites), maxShownSites)] {
		line := s.file.lineAt(st.from)
		e.Sites = append(e.Sites, line)
		if line != last {
			at = append(at, fmt.Sprint(line))
		}
		last = line
	}
	if e.More {
		at = append(at, "…")
	}
	count := fmt.Sprint(len(sites))
	if len(sites) >= maxSites {
		count = "more than " + count
	}
	how := ""
	if name != Exact {
		how = " (inexact matches: " + name + ")"
	}
	lines := "lines"
	if len(at) == 1 {
		lines = "line"
	}
	e.Message = fmt.Sprintf("old_string occurs %s times in %s%s, on %s %s. Add lines around it to make it unique, or set replace_all to change them all.", count, s.edit.File, how, lines, strings.Join(at, ", "))
	return e
}

func isBlankText(s string) bool {
	return strings.TrimFunc(s, func(r rune) bool { return r == '\n' || isBlank(r) }) == ""
}

// The expressions below match placeholders for omitted lines. A placeholder is a line with an ellipsis, which can be in
// a comment or in brackets. The line can also describe the omission.
var (
	bareEllipsis = regexp.MustCompile(`^(?://+|#+|--|;+|%+|/\*+|<!--|\*|\{/\*|\(|\[)?\s*(?:\.{3,}|…)\s*(?:\*+/|-->|\*/\}|\)|\])?$`)
	withWords    = regexp.MustCompile(`(?i)^(//+|#+|--|;+|%+|/\*+|<!--|\*|\{/\*|\(|\[)?\s*((?:\.{3,}|…)\s+)?((?:[\pL'’]+[ ,:-]*)+)(\.{3,}|…)?\s*(?:\*+/|-->|\*/\}|\)|\])?$`)
	noEllipsis   = regexp.MustCompile(`(?i)^(?://+|#+|--|;+|%+|/\*+|<!--|\*|\{/\*)\s*\(?(?:(?:the )?rest(?: of (?:the )?[\pL\pN_ ]{1,40})?(?: (?:is |remains |stays )?(?:unchanged|the same|as before|omitted))?|(?:existing|remaining|other|previous) (?:code|methods?|functions?|lines?|fields?|cases?|imports?|implementation|logic)(?: (?:here|unchanged|as before|stays?|remains?))?|(?:code |lines )?(?:unchanged|omitted|elided|snipped|same as before|as before|no changes?))\)?\.?\s*(?:\*+/|-->|\*/\})?$`)
	leftOut      = regexp.MustCompile(`(?i)\b(?:rest of|rest (?:is )?unchanged|the rest|remaining|remainder|existing|unchanged|not changed|unmodified|omitted|elided|snip(?:ped)?|same as|as before|previous|other (?:code|methods?|functions?|lines?|fields?|cases?|imports?))\b`)
)

func isPlaceholder(line string) (elided, explicit bool) {
	if len(line) > 200 || !strings.Contains(line, "...") && !strings.Contains(line, "…") {
		return false, false
	}
	if bareEllipsis.MatchString(line) {
		return true, false
	}
	m := withWords.FindStringSubmatch(line)
	explicit = m != nil && (m[1] != "" || m[2] != "") && (m[2] != "" || m[4] != "") && leftOut.MatchString(m[3])
	return explicit, explicit
}

// introducedPlaceholder returns the first placeholder in new_string that old_string does not contain. A line such as
// "..." or "// the rest" can also be code or an ordinary comment. Such a line counts as a placeholder only if it
// replaces lines.
func introducedPlaceholder(old, theirs string) string {
	if line := standIn(old, theirs); line != "" {
		return line
	}
	if !strings.Contains(theirs, "...") && !strings.Contains(theirs, "…") {
		return ""
	}
	count := make(map[string]int)
	for line := range strings.SplitSeq(old, "\n") {
		count[strings.TrimSpace(line)]++
	}
	for line := range strings.SplitSeq(theirs, "\n") {
		line = strings.TrimSpace(line)
		if _, explicit := isPlaceholder(line); explicit {
			if count[line]--; count[line] < 0 {
				return line
			}
		}
	}
	return ""
}

// standIn returns the first line of new_string that is a placeholder for lines of old_string. If new_string has none,
// standIn returns "".
func standIn(old, theirs string) string {
	was, is := trimmedLines(old), trimmedLines(theirs)
	if !slices.ContainsFunc(is, func(line string) bool { return standsFor(line) > 0 }) {
		return ""
	}
	for _, h := range diffLines(was, is) {
		removed := 0
		for _, line := range was[h.oldFrom:h.oldTo] {
			if line != "" && standsFor(line) == 0 {
				removed++
			}
		}
		for _, line := range is[h.newFrom:h.newTo] {
			if n := standsFor(line); n > 0 && removed >= n && !slices.Contains(was, line) {
				return line
			}
		}
	}
	return ""
}

// standsFor returns the minimum number of lines that a line must replace to count as a placeholder. It returns 0 for a
// line that cannot be a placeholder. In Python, "..." is a statement and can properly replace one line, so it must
// replace at least two lines.
func standsFor(line string) int {
	switch {
	case line == "...":
		return 2
	case len(line) > 200:
		return 0
	case bareEllipsis.MatchString(line), noEllipsis.MatchString(line):
		return 1
	}
	return 0
}

func trimmedLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// elided returns an error if old_string contains a placeholder for omitted lines. The caller calls elided only if
// old_string has no exact match. A line that also occurs in the file does not count as a placeholder.
func (s *search) elided() error {
	for line := range strings.SplitSeq(s.edit.Old, "\n") {
		line = strings.TrimSpace(line)
		if elided, _ := isPlaceholder(line); elided && !s.hasLine(line) {
			return refused("old_string has the placeholder %q where the file has other lines. Write the text in full, or choose a part without a gap.", line)
		}
	}
	return nil
}

func (s *search) hasLine(trimmed string) bool {
	for i := range s.file.lines() {
		if strings.TrimSpace(string(s.file.line(i))) == trimmed {
			return true
		}
	}
	return false
}
