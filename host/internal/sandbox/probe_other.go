//go:build !linux

package sandbox

// Probe reports that this machine can enforce nothing.
func Probe(string, string) Kernel {
	return Kernel{NoLauncher: "the sandbox needs Linux"}
}

// Forget does nothing.
func Forget(string) {}
