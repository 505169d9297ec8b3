//go:build linux && !amd64 && !arm64

package confine

// SeccompKnown reports whether this package knows the system calls of the architecture.
const SeccompKnown = false

func seccomp(*Policy) (int, error) { return -1, nil }

func passGate(*Policy, int) error { return nil }
