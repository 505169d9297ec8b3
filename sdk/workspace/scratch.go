package workspace

import "sync"

// Buffers for the content of files are reused, because fresh memory from the kernel costs more
// than reading a file into it.
const (
	minScratch = 64 << 10
	maxScratch = 8 << 20
)

var scratch sync.Pool // holds *[]byte

// Scratch returns an empty buffer of at least that capacity, for the content of a file. It may be
// one that was given to [Reuse].
func Scratch(capacity int) []byte {
	if capacity < minScratch || capacity > maxScratch {
		return make([]byte, 0, capacity)
	}
	if b, ok := scratch.Get().(*[]byte); ok && cap(*b) >= capacity {
		return (*b)[:0]
	}
	// The buffer is somewhat larger, so that the file still fits after an edit.
	return make([]byte, 0, (capacity+capacity/64+minScratch)&^(4<<10-1))
}

// Reuse takes back a buffer that nobody uses any more. Leave the buffer to the garbage collector
// in case of doubt.
func Reuse(b []byte) {
	if cap(b) < minScratch || cap(b) > 2*maxScratch {
		return
	}
	b = b[:0]
	scratch.Put(&b)
}
