//go:build !linux

package sandbox

import (
	"os/exec"

	"toolhost.dev/host/internal/sandbox/confine"
)

func isolate(*exec.Cmd, *confine.Policy) {}

// foreignGroup returns zero, because this system has no sandboxes with groups of their own.
func foreignGroup() (int, error) { return 0, nil }
