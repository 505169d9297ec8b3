package workspace

import "sync"

// A buffer for a file's content is worth using again: memory that is fresh from the kernel
// costs more than to read a file into it.
const (
	minScratch = 64 << 10
	maxScratch = 8 << 20
)

var scratch sync.Pool // of *[]byte

// Scratch returns an empty buffer with that capacity, for a file's content. It is a new one, or
// one that was given to [Reuse].
func Scratch(capacity int) []byte {
	if capacity < minScratch || capacity > maxScratch {
		return make([]byte, 0, capacity)
	}
	if b, ok := scratch.Get().(*[]byte); ok && cap(*b) >= capacity {
		return (*b)[:0]
	}
	// Somewhat larger, so that it is of use for the file after an edit too.
	return make([]byte, 0, (capacity+capacity/64+minScratch)&^(4<<10-1))
}

// Reuse takes a buffer back that nobody uses any more. Who is not sure of that leaves it to
// the garbage collector.
func Reuse(b []byte) {
	if cap(b) < minScratch || cap(b) > 2*maxScratch {
		return
	}
	b = b[:0]
	scratch.Put(&b)
}
