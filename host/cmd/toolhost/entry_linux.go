//go:build linux && (amd64 || arm64)

package main

// entry is the program's entry point if the linker is told so (-E main.entry, as the Makefile
// does). It sets the timer slack of the process to 500 µs and continues with the entry point of
// Go's runtime. Nothing calls it.
//
// It runs before the runtime because a thread can change only its own timer slack, and the
// runtime starts its monitor thread first. Threads and processes inherit the slack when they
// start. A program that is linked without the flag works too, and uses more processor time.
// See docs/adr/0027 and prctl(2), PR_SET_TIMERSLACK.
func entry()

var _ = entry // only the linker refers to entry
