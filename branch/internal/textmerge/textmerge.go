// Package textmerge implements the three-way merge of texts. [Merge] is its only function.
package textmerge

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// ConflictError means that both sides changed the same lines of the ancestor, or lines next to each other.
type ConflictError struct {
	// First and Last delimit the first range of such lines in our text, counted from 1.
	First, Last int
}

func (e *ConflictError) Error() string {
	if e.First >= e.Last {
		return fmt.Sprintf("both changed line %d", e.First)
	}
	return fmt.Sprintf("both changed the lines %d to %d", e.First, e.Last)
}

// Merge combines the changes of two texts that began as the same ancestor. If both change the same lines in different
// ways, or lines without an unchanged line between them, the error is a [ConflictError].
func Merge(ancestor, ours, theirs string) (string, error) {
	switch {
	case ours == theirs, theirs == ancestor:
		return ours, nil
	case ours == ancestor:
		return theirs, nil
	}
	sides := [2][]udiff.Edit{udiff.Lines(ancestor, ours), udiff.Lines(ancestor, theirs)}
	var out strings.Builder
	at := 0
	for len(sides[0])+len(sides[1]) > 0 {
		first := 0
		if len(sides[0]) == 0 || len(sides[1]) > 0 && sides[1][0].Start < sides[0][0].Start {
			first = 1
		}
		start, end := sides[first][0].Start, sides[first][0].End
		var taken [2][]udiff.Edit // the edits that touch each other, directly or through others
		for grew := true; grew; {
			grew = false
			for i := range sides {
				for len(sides[i]) > 0 && sides[i][0].Start <= end {
					end, grew = max(end, sides[i][0].End), true
					taken[i], sides[i] = append(taken[i], sides[i][0]), sides[i][1:]
				}
			}
		}
		out.WriteString(ancestor[at:start])
		at = end
		mine, other := replaced(ancestor, start, end, taken[0]), replaced(ancestor, start, end, taken[1])
		switch {
		case len(taken[1]) == 0, mine == other:
			out.WriteString(mine)
		case len(taken[0]) == 0:
			out.WriteString(other)
		default:
			before := len(ours) - len(ancestor[end:]) - len(mine) - growth(sides[0])
			line := 1 + strings.Count(ours[:before], "\n")
			return "", &ConflictError{
				First: line, Last: line + max(0, strings.Count(strings.TrimSuffix(mine, "\n"), "\n")),
			}
		}
	}
	out.WriteString(ancestor[at:])
	return out.String(), nil
}

// growth returns by how many bytes edits make a text longer.
func growth(edits []udiff.Edit) (n int) {
	for _, e := range edits {
		n += len(e.New) - (e.End - e.Start)
	}
	return n
}

// replaced returns a part of a text after edits in it.
func replaced(text string, start, end int, edits []udiff.Edit) string {
	var out strings.Builder
	at := start
	for _, e := range edits {
		out.WriteString(text[at:e.Start] + e.New)
		at = e.End
	}
	return out.String() + text[at:end]
}
