//go:build linux && (amd64 || arm64)

package main

// Go's runtime has a thread that looks after the others, every 20 µs for as long as there is
// something to do. The kernel may be 50 µs late to wake it (the timer slack), which is
// often enough to take a fifth of the processors' time for a short call. Linked with
// -E main.entry the program allows 500 µs before the runtime begins: later than that the
// thread is there already, and nothing but itself can change it. Linked without, it begins as any
// program does, and is slower. What the host starts inherits it; see docs/adr/0027.

// entry is the program's entry point; it goes on to the runtime's.
func entry()

var _ = entry // only the linker knows it
