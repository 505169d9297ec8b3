//go:build linux && (amd64 || arm64)

package timerslack

// Entry is a program's entry point, which goes on to the runtime's. It is for the linker,
// and not to be called.
func Entry()
