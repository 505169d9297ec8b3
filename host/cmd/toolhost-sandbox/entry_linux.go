//go:build linux && (amd64 || arm64)

package main

// entry is the program's entry point if the linker flag -E main.entry is set, as in the Makefile. For a warden, whose
// first argument begins with "ward", it joins the user and mount namespaces of the process behind descriptor 3, and stores
// the result in joined. It continues with the entry point of Go's runtime. No Go code calls entry.
//
// entry must run before the runtime, because a process with several threads cannot join a user namespace. See setns(2).
func entry()

var _ = entry // only the linker refers to entry
