package syntax

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is a pattern that cannot be read.
type Error struct {
	Pattern string
	// Offset and End are the bytes of the pattern that are at fault.
	Offset, End int
	// Reason says what is wrong with them and, where it is known, what to write instead.
	Reason string
}

// Column is the 1-based number of the character at fault.
func (e *Error) Column() int { return utf8.RuneCountInString(e.Pattern[:e.Offset]) + 1 }

// Error returns the reason and below it the pattern with a mark under what is at fault.
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
