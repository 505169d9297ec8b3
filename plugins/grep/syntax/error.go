package syntax

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error describes an invalid pattern.
type Error struct {
	Pattern string
	// Offset and End are the byte offsets of the invalid part of the pattern.
	Offset, End int
	// Reason describes the problem. If a remedy is known, Reason includes the remedy.
	Reason string
}

// Column returns the number of the first character in the invalid part, counted from 1.
func (e *Error) Column() int { return utf8.RuneCountInString(e.Pattern[:e.Offset]) + 1 }

// Error returns the reason, followed by the pattern with its invalid part marked.
func (e *Error) Error() string {
	head := fmt.Sprintf("the pattern is not valid at character %d: %s", e.Column(), e.Reason)
	start := strings.LastIndexByte(e.Pattern[:e.Offset], '\n') + 1
	line, _, _ := strings.Cut(e.Pattern[start:], "\n")
	if len(line) > 200 {
		return head
	}
	width := max(1, utf8.RuneCountInString(e.Pattern[e.Offset:max(e.Offset, min(e.End, start+len(line)))]))
	indent := utf8.RuneCountInString(e.Pattern[start:e.Offset])
	return head + "\n    " + line + "\n    " + strings.Repeat(" ", indent) + strings.Repeat("^", width)
}
