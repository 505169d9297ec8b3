//go:build linux && (amd64 || arm64)

package main

// entry is the program's entry point if the linker flag -E main.entry is set, as in the Makefile. If the program is a
// warden, its first argument begins with "ward". In this case, entry joins the user and mount namespaces of the process
// that descriptor 3 refers to, and stores the result in joined. Then it continues with the entry point of Go's runtime.
// No Go code calls entry.
//
// entry must run before the runtime, because a process with several threads cannot join a user namespace. See setns(2).
func entry()

var _ = entry // only the linker refers to entry
