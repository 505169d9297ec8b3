//go:build failpoints

// Package failpoint lets tests kill or stop a node at a step of its work. [At] marks a step.
package failpoint

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
)

// At kills this process if the content of the file $TOOLHOST_FLEET_KILL is the step. If the content is "stop " and the
// step, At stops the process instead. It removes the file, so that only one of several processes is killed.
func At(step string) {
	path := os.Getenv("TOOLHOST_FLEET_KILL")
	b, err := os.ReadFile(path)
	named, stops := strings.CutPrefix(string(b), "stop ")
	if err != nil || named != step || os.Remove(path) != nil {
		return
	}
	if stops {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // wait for the signal, so that nothing else runs
}

// Later returns fields like those that a later version could add to records. $TOOLHOST_FLEET_LATER is the value of such
// a field.
func Later() map[string]json.RawMessage {
	if value := os.Getenv("TOOLHOST_FLEET_LATER"); value != "" {
		return map[string]json.RawMessage{"later": json.RawMessage(value)}
	}
	return nil
}
