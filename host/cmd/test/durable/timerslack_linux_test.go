//go:build linux && (amd64 || arm64)

package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tooltest"
)

// TestTimerSlack checks that the host and its plugins have a large timer slack, and that commands in a session have the
// default timer slack.
func TestTimerSlack(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	c := hosttest.Toolhost(t, dir, "batch")
	in, out := hosttest.Piped(t, c)
	t.Cleanup(func() { _ = c.Wait() })
	defer in.Close()
	fmt.Fprintln(in, `{"id":1,"command":"cat /proc/self/timerslack_ns"}`)
	answer, err := out.ReadString('\n')
	if err != nil || !strings.Contains(answer, `"50000\n"`) {
		t.Errorf("%s %v", answer, err)
	}
	plugin := childNamed(t, c.Process.Pid, "bash")
	for what, pid := range map[string]int{"host": c.Process.Pid, "plugin": plugin} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", pid))
		if errors.Is(err, fs.ErrPermission) {
			tooltest.InUserNamespace(t, err)
			return
		}
		if string(b) != "500000\n" {
			t.Errorf("%s: %q %v", what, b, err)
		}
	}
}
