//go:build linux && (amd64 || arm64)

package main

// entry is the program's entry point if the linker flag -E main.entry is set, as in the Makefile. It sets the timer
// slack of the process to 500 µs and continues with the entry point of Go's runtime. No Go code calls entry.
//
// entry must run before the runtime. A thread can change only its own timer slack, which new threads and processes
// inherit, and the runtime starts its monitor thread early. Without the linker flag, the program works but uses more
// processor time. See docs/adr/0007-sandbox.md and prctl(2), PR_SET_TIMERSLACK.
func entry()

var _ = entry // this reference is needed because only the linker uses entry
