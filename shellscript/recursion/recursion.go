// Package recursion limits the recursion depth of a parser. Without a limit, a stack overflow could end the process.
//
// A parser must read its text from a [Reader]. If the recursion is too deep, the Reader returns an [Error].
package recursion

import (
	"fmt"
	"io"
	"runtime"
)

// The reader checks the depth of the stack when the parser reads more text. Between two checks, the stack grows by at
// most 30 frames per byte.
const (
	maxFrames = 20_000 // enough for thousands of nested commands or hundreds of nested expressions
	shallow   = 256    // a check of so few frames is cheap
	unseen    = 2048   // number of bytes between two checks
)

// Error reports that the recursion of a parser is too deep at an offset of the text.
type Error struct{ Offset int }

func (e *Error) Error() string { return fmt.Sprintf("nested too deep at byte %d", e.Offset) }

// Reader reads a text. It returns an error if the recursion of the parser is too deep.
type Reader struct {
	text   string
	offset int
	looked int // offset of the last check
}

// NewReader returns a reader of a text.
func NewReader(text string) *Reader { return &Reader{text: text} }

// Read implements [io.Reader]. Its error is io.EOF or an [*Error].
func (r *Reader) Read(b []byte) (int, error) {
	if r.offset == len(r.text) {
		return 0, io.EOF
	}
	if r.offset >= r.looked+unseen {
		if deeper(shallow) && deeper(maxFrames) {
			return 0, &Error{r.offset}
		}
		r.looked = r.offset
	}
	n := copy(b, r.text[r.offset:])
	r.offset += n
	return n, nil
}

// deeper reports whether the stack has more than the given number of frames.
func deeper(frames int) bool {
	var pc [1]uintptr
	return runtime.Callers(frames, pc[:]) > 0
}
