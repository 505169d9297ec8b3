// Package descent keeps a parser that descends into what is nested from going so deep
// that its stack overflows, which would end the process.
package descent

import (
	"fmt"
	"io"
	"runtime"
)

// The reader looks now and then how deep the parser stands when it asks for more text.
// Between two looks it gets at most 30 frames deeper for each byte.
const (
	maxFrames = 20_000 // some thousands of nested commands, some hundreds of nested expressions
	shallow   = 256    // frames that cost little to look at
	unseen    = 2048   // bytes to read between two looks
)

// Error ends a parse that went too deep.
type Error struct{ Offset int }

func (e *Error) Error() string { return fmt.Sprintf("nested too deep at byte %d", e.Offset) }

// Reader gives a parser its text as long as the parser does not stand too deep.
type Reader struct {
	text   string
	offset int
	looked int // the offset of the last look
}

// NewReader makes a reader of a text.
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

// deeper reports whether the stack has more than that many frames.
func deeper(frames int) bool {
	var pc [1]uintptr
	return runtime.Callers(frames, pc[:]) > 0
}
