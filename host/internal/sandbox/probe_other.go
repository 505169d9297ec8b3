//go:build !linux

package sandbox

// Probe finds out what this machine can enforce: nothing.
func Probe(string, string) Kernel {
	return Kernel{NoLauncher: "there is no sandbox for this system: it needs Linux"}
}

// Forget drops what Probe has kept.
func Forget(string) {}
