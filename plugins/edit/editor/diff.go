package editor

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// maxDiff limits the number of changed lines for which a diff is computed, because the cost is quadratic.
const maxDiff = 50_000

// diff returns a unified diff of two texts. It compares neither their common beginning nor their common end.
func diff(from, to string, before, after []byte) string {
	const context = udiff.DefaultContextLines
	head := commonLines(before, after)
	for range context {
		head = bytes.LastIndexByte(before[:max(0, head-1)], '\n') + 1
	}
	tail := commonTail(before[head:], after[head:])
	for range context { // keep some context lines after the last difference
		if n := bytes.IndexByte(before[len(before)-tail:], '\n'); n >= 0 {
			tail -= n + 1
		} else {
			tail = 0
		}
	}
	old, now := before[head:len(before)-tail], after[head:len(after)-tail]
	if n := bytes.Count(old, []byte{'\n'}) + bytes.Count(now, []byte{'\n'}); n > maxDiff {
		return fmt.Sprintf("--- %s\n+++ %s\n@@ the diff is omitted: its changed region has %d lines @@\n", from, to, n)
	}
	return bounded(shift(udiff.Unified(from, to, string(old), string(now)), bytes.Count(before[:head], []byte{'\n'})))
}

const (
	// maxDiffLine limits each line of a diff in a result, and maxDiffBytes limits the whole diff. Both are in bytes.
	maxDiffLine  = 4 << 10
	maxDiffBytes = 1 << 20
)

// bounded shortens a long diff and long lines of a diff. It marks the omitted text.
func bounded(diff string) string {
	if len(diff) <= maxDiffLine {
		return diff
	}
	var out strings.Builder
	for line := range strings.Lines(diff) {
		if out.Len() > maxDiffBytes {
			fmt.Fprintf(&out, "@@ the rest of the diff is omitted: the diff has %d bytes @@\n", len(diff))
			break
		}
		if len(line) > maxDiffLine {
			kept := strings.ToValidUTF8(line[:maxDiffLine], "")
			line = fmt.Sprintf("%s… [line cut here: %d more bytes]\n", kept, len(line)-len(kept))
		}
		out.WriteString(line)
	}
	return out.String()
}

// block is the number of bytes that are compared at once.
const block = 4096

// commonLines returns the length in bytes of the equal lines at the beginning of both texts.
func commonLines(a, b []byte) int {
	n := 0
	for n+block <= len(a) && n+block <= len(b) && bytes.Equal(a[n:n+block], b[n:n+block]) {
		n += block
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return bytes.LastIndexByte(a[:n], '\n') + 1
}

// commonTail returns the length in bytes of the equal lines at the end of both texts.
func commonTail(a, b []byte) int {
	n := 0
	for n+block <= len(a) && n+block <= len(b) && bytes.Equal(a[len(a)-n-block:len(a)-n], b[len(b)-n-block:len(b)-n]) {
		n += block
	}
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	if n == len(a) && n == len(b) {
		return 0
	}
	// The first line of the common end is complete only if a line feed precedes it.
	i := bytes.IndexByte(a[len(a)-n:], '\n')
	if i < 0 {
		return 0
	}
	return n - i - 1
}

var hunkHeader = regexp.MustCompile(`(?m)^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@`)

// shift adds a number to the line numbers in a diff.
func shift(diff string, lines int) string {
	if lines == 0 {
		return diff
	}
	return hunkHeader.ReplaceAllStringFunc(diff, func(header string) string {
		m := hunkHeader.FindStringSubmatch(header)
		old, _ := strconv.Atoi(m[1])
		now, _ := strconv.Atoi(m[3])
		return fmt.Sprintf("@@ -%d%s +%d%s @@", old+lines, m[2], now+lines, m[4])
	})
}

// unified formats the change as a diff in git's format.
func (c *change) unified() string {
	name := strings.TrimPrefix(c.name, "/")
	from, to := "a/"+name, "b/"+name
	if c.target.Before == nil {
		from = "/dev/null"
	}
	if c.remove {
		to = "/dev/null"
	}
	return diff(from, to, c.oldText(), c.after)
}

// maxShownDiff limits the diff in the text for the model, in bytes. The structured result can contain a longer diff.
const maxShownDiff = 8 << 10

func shown(diff string) string {
	if len(diff) <= maxShownDiff {
		return diff
	}
	cut := strings.LastIndexByte(diff[:maxShownDiff], '\n') + 1
	return fmt.Sprintf("%s… %d more lines of the diff", diff[:cut], strings.Count(diff[cut:], "\n"))
}
