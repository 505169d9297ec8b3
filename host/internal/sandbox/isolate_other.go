//go:build !linux

package sandbox

import (
	"os/exec"

	"toolhost.dev/host/internal/sandbox/confine"
)

func isolate(*exec.Cmd, *confine.Policy) {}
