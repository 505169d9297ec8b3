package fleet

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// processState returns the state of the node's process, such as "T" for a stopped process.
func (n *fleetNode) processState() string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(n.cmd.Process.Pid) + "/stat")
	_, after, _ := bytes.Cut(b, []byte(") "))
	state, _, _ := bytes.Cut(after, []byte(" "))
	return string(state)
}

// TestFleetMoveEndsProcesses stops a node at the moment at which it gave a session away. The jobs of the session must
// already be dead when the new owner runs the next call.
func TestFleetMoveEndsProcesses(t *testing.T) {
	t.Parallel()
	f := newStepFleet(t, "")
	gate := f.nodes["gate"]
	gate.want("s", "true")
	owner, _ := f.owner("s")
	ticks := filepath.Join(f.workspace, "ticks")
	// The job starts no programs, because these wait for a host that is stopped.
	job := "exec 9<> <(:); while true; do echo ${EPOCHREALTIME//[.,]/}000 >> " + ticks + "; read -rt .02 -u 9; done"
	res, err := gate.call(t.Context(), fleetCall{Name: "bash", Session: "s", Arguments: map[string]any{"command": job, "run_in_background": true}})
	if err != nil || !res.Success {
		t.Fatalf("%v %v", res, err)
	}
	hosttest.Wait(t, "the job runs", func() bool {
		st, err := os.Stat(ticks)
		return err == nil && st.Size() > 60
	})
	hosttest.Must(t, os.WriteFile(filepath.Join(f.dir, "kill"), []byte("stop entry handed over"), 0o600))
	moves := gate.command("fleet", "move", "s", "--wait", "100ms")
	hosttest.Must(t, moves.Start())
	hosttest.Wait(t, "the owner has given the session away", func() bool { return owner.processState() == "T" })
	taken, err := strconv.ParseInt(strings.Fields(gate.want("s", "date +%s%N").Output)[0], 10, 64)
	hosttest.Must(t, err)
	time.Sleep(300 * time.Millisecond) // long enough for a living job to write several times
	b, err := os.ReadFile(ticks)
	hosttest.Must(t, err)
	lines := strings.Fields(string(b))
	last, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	hosttest.Must(t, err)
	if last > taken {
		t.Errorf("a job of the old owner still wrote %s after the new owner had begun", time.Duration(last-taken))
	}
	owner.signal(syscall.SIGCONT)
	_ = moves.Wait() // the error is ignored: the stopped node can lose its connection to the one that asked for the move
	if now, _ := f.owner("s"); now == owner {
		t.Error("the session was not moved")
	}
}
