// Package list implements a list of tasks: its limits, its summary and its text form. [Check] reports all problems of a
// list at once.
package list

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The following constants limit a list.
const (
	MaxItems = 200
	// MaxContent is the maximum length of a task in characters. MaxID is the maximum length of an id in characters.
	MaxContent = 2000
	MaxID      = 100
	// MaxBytes is the maximum size in bytes of all contents and ids of a list together. A list of this size fits into a
	// session's state when it is encoded.
	MaxBytes = 128 << 10
)

// Item is a task.
type Item struct {
	Content  string `json:"content"`
	Status   string `json:"status"`
	Priority string `json:"priority,omitempty"`
	ID       string `json:"id,omitempty"`
}

// The values of [Item.Status].
const (
	Pending    = "pending"
	InProgress = "in_progress"
	Completed  = "completed"
	Cancelled  = "cancelled"
)

var (
	statuses   = []string{Pending, InProgress, Completed, Cancelled}
	priorities = []string{"high", "medium", "low"}
	marks      = map[string]string{Pending: "[ ]", InProgress: "[~]", Completed: "[x]", Cancelled: "[-]"}
)

// Check returns all problems of a list. If an item has no status, Check sets the status to "pending".
func Check(items []Item) (problems []string) {
	fail := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	if len(items) > MaxItems {
		fail("the list has %d items, and the limit is %d", len(items), MaxItems)
	}
	size := 0
	first := make(map[string]int) // maps an id to the number of the item
	for i := range items {
		it, n := &items[i], i+1
		size += len(it.Content) + len(it.ID)
		if it.Status == "" {
			it.Status = Pending
		}
		if strings.TrimSpace(it.Content) == "" {
			fail("item %d has no content", n)
		}
		if chars := utf8.RuneCountInString(it.Content); chars > MaxContent {
			fail("item %d has %d characters, and the limit is %d", n, chars, MaxContent)
		}
		if !slices.Contains(statuses, it.Status) {
			fail("item %d has the status %s; use %s", n, quoted(it.Status), or(statuses))
		}
		if it.Priority != "" && !slices.Contains(priorities, it.Priority) {
			fail("item %d has the priority %s; use %s", n, quoted(it.Priority), or(priorities))
		}
		if utf8.RuneCountInString(it.ID) > MaxID {
			fail("item %d has an id with more than %d characters", n, MaxID)
		} else if other := first[it.ID]; it.ID != "" && other > 0 {
			fail("item %d has the id %q of item %d", n, it.ID, other)
		} else {
			first[it.ID] = n
		}
	}
	if size > MaxBytes {
		fail("the list has %d bytes, and the limit is %d", size, MaxBytes)
	}
	return problems
}

// quoted quotes a value for a message. It shortens long values.
func quoted(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

func or(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Summary returns one line about a list: the number of completed items and the first item in progress. Cancelled items
// do not count. For an empty list, the summary is empty.
func Summary(items []Item) string {
	done, all, current := 0, 0, ""
	for _, it := range items {
		switch it.Status {
		case Cancelled:
			continue
		case Completed:
			done++
		case InProgress:
			if current == "" {
				current = ", in progress: " + strings.Join(strings.Fields(it.Content), " ")
			}
		}
		all++
	}
	if len(items) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d done%s", done, all, current)
}

// Text returns the list as text. Each item begins on a new line. If an item has several lines, all lines except the
// first are indented.
func Text(items []Item) string {
	if len(items) == 0 {
		return "The list is empty."
	}
	var b strings.Builder
	for i, it := range items {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(marks[it.Status] + " " + strings.ReplaceAll(strings.TrimSpace(it.Content), "\n", "\n    "))
		if it.Priority != "" {
			b.WriteString(" (" + it.Priority + ")")
		}
	}
	return b.String()
}
