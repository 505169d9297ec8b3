package workspace

import "sync"

// The following limits apply to reused buffers. Buffers are reused because new memory from the kernel costs more time
// than reading a file.
const (
	minScratch = 64 << 10
	maxScratch = 8 << 20
)

var scratch sync.Pool // the elements have the type *[]byte

// Scratch returns an empty buffer with at least the given capacity, for the content of a file. It can return a buffer
// that was passed to [Reuse].
func Scratch(capacity int) []byte {
	if capacity < minScratch || capacity > maxScratch {
		return make([]byte, 0, capacity)
	}
	if b, ok := scratch.Get().(*[]byte); ok && cap(*b) >= capacity {
		return (*b)[:0]
	}
	// Allocate slightly more than requested. After an edit, the file then still fits into the buffer.
	return make([]byte, 0, (capacity+capacity/64+minScratch)&^(4<<10-1))
}

// Reuse makes a buffer available for Scratch. The caller must no longer use the buffer. In case of doubt, do not call
// Reuse and leave the buffer to the garbage collector.
func Reuse(b []byte) {
	if cap(b) < minScratch || cap(b) > 2*maxScratch {
		return
	}
	b = b[:0]
	scratch.Put(&b)
}
