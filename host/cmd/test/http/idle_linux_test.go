package http

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestManySessionsAtOnce runs commands of more sessions at once than may keep a process. As soon as the commands have
// ended, only the permitted number of processes is left. The sessions keep their state.
func TestManySessionsAtOnce(t *testing.T) {
	t.Parallel()
	const sessions, limit = 40, 32 + 1 // one process is for the host's own roots
	dir := hosttest.MCPDir(t)
	s := hosttest.StartServer(t, dir, nil, "--listen", "127.0.0.1:0")
	c := hosttest.NewClient(t, s.Base, hosttest.ServerToken)
	shells := func() int { return len(hosttest.ChildrenNamed(s.Cmd.Process.Pid, "bash")) }
	var calls sync.WaitGroup
	for i := range sessions {
		calls.Go(func() {
			c.Want(200, `"success":true`, "POST", "/v1/run", fmt.Sprintf(`{"session":"s%d","command":"N=%[1]d; while [ ! -e go ]; do sleep 0.1; done"}`, i))
		})
	}
	hosttest.Wait(t, "a process for each session", func() bool { return shells() >= sessions })
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	calls.Wait()
	hosttest.Wait(t, "the end of the surplus processes", func() bool { return shells() <= limit })
	for _, i := range []int{0, sessions - 1} {
		c.Want(200, fmt.Sprintf(`"output":"%d\n"`, i), "POST", "/v1/run", fmt.Sprintf(`{"session":"s%d","command":"echo $N"}`, i))
	}
}
