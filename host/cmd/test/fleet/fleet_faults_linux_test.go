package fleet

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// coordinatorPID returns the process id of the coordinator that the node started.
func (n *fleetNode) coordinatorPID() int {
	b, _ := os.ReadFile(filepath.Join(n.state, "fleet", "coordinator", "lock"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// TestFleetCoordinatorEnds checks that a coordinator is restarted after it was killed, and after its disk was full.
func TestFleetCoordinatorEnds(t *testing.T) {
	t.Parallel()
	if os.Getenv("TOOLHOST_FLEET_INSIDE") == "" {
		inNamespaces(t, "TestFleetCoordinatorEnds", nil)
		return
	}
	f := newFleet(t, "")
	text, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	// The lease must be longer than a coordinator takes to start.
	hosttest.Must(t, os.WriteFile(f.config, []byte(strings.Replace(string(text), `"2s"`, `"8s"`, 1)), 0o644))
	store := filepath.Join(f.dir, "one", "state", "fleet", "coordinator")
	hosttest.Must(t, os.MkdirAll(store, 0o700))
	hosttest.Must(t, syscall.Mount("none", store, "tmpfs", 0, "size=16m"))
	t.Cleanup(func() { _ = syscall.Unmount(store, syscall.MNT_DETACH) })
	hosttest.Must(t, exec.Command("ip", "link", "set", "lo", "up").Run())
	one, two := f.start("one"), f.start("two")
	one.want("s", "echo 1 >> log")

	pid := one.coordinatorPID()
	hosttest.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	two.want("s", "echo 2 >> log")
	if now := one.coordinatorPID(); now == pid {
		t.Errorf("the coordinator is still %d", now)
	}

	fill := filepath.Join(store, "fill")
	_ = exec.Command("dd", "if=/dev/zero", "of="+fill, "bs=64k").Run() // ignore the error: dd fails when the disk is full
	begun := 0
	hosttest.Wait(t, "the nodes refuse calls", func() bool {
		res, err := two.call(t.Context(), fleetCall{Command: "echo lost >> log", Session: "s"})
		hosttest.Must(t, err)
		if res.Success {
			return false
		}
		if res.Error.Code == 520 && begun == 0 { // the call had begun when the disk became full, so its result is unknown
			begun++
			return false
		}
		if res.Error.Kind != "unavailable" || res.Error.Code != 521 || strings.Contains(res.Error.Message, "..") {
			t.Errorf("with a full disk: %s", res)
		}
		return true
	})
	hosttest.Wait(t, "the status reports the full disk", func() bool {
		return strings.Contains(one.do("fleet", "status"), "is full")
	})
	hosttest.Must(t, os.Remove(fill))
	hosttest.Wait(t, "the coordinator is back", func() bool {
		res, err := two.call(t.Context(), fleetCall{Command: "echo 3 >> log", Session: "s"})
		return err == nil && res.Success
	})
	hosttest.Wait(t, "both nodes have leases again", func() bool {
		return !strings.Contains(one.do("fleet", "status"), "problem:")
	})
	b, err := os.ReadFile(filepath.Join(f.workspace, "log"))
	hosttest.Must(t, err)
	if !strings.HasPrefix(string(b), "1\n2\n") || strings.Count(string(b), "3") != 1 {
		t.Errorf("the log: %q", b)
	}
}

// TestFleetNodeLeaves checks that a node hands over its idle sessions at once when it receives the signal to end. It
// must do so even while a call of another session still runs on the node.
func TestFleetNodeLeaves(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	one := f.nodes["one"]
	one.want("busy", "true")
	owner, other := f.owner("busy")
	one.want("idle", "mkdir -p sub && cd sub && COLOR=green")
	if now, _ := f.owner("idle"); now != owner {
		one.do("fleet", "move", "idle", "--to", owner.name)
	}
	call := fleetCall{Command: "echo one >> ../once", Session: "idle", CallID: "before"}
	if res, err := other.call(t.Context(), call); err != nil || !res.Success {
		t.Fatalf("%v %v", res, err)
	}
	long := make(chan *fleetResult, 1)
	go func() {
		res, err := other.call(t.Context(), fleetCall{Command: "touch begun; sleep 6; echo whole", Session: "busy"})
		if err != nil {
			t.Error(err)
		}
		long <- res
	}()
	hosttest.Wait(t, "the call runs", func() bool {
		_, err := os.Stat(filepath.Join(f.workspace, "begun"))
		return err == nil
	})
	owner.signal(syscall.SIGTERM)
	hosttest.Wait(t, "the node leaves", func() bool { return strings.Contains(other.do("fleet", "status"), "draining") })
	res := other.want("idle", "pwd; echo $COLOR")
	if !strings.HasPrefix(res.Output, f.workspace+"/sub\ngreen\n") || res.Metadata["node"] != other.name {
		t.Errorf("the session that was handed over: %q %v", res.Output, res.Metadata)
	}
	if owner.hasEnded() {
		t.Error("the call waited until the node had ended, or the node ended a call that runs")
	}
	if res, err := other.call(t.Context(), call); err != nil || res.Metadata["repeated"] != true {
		t.Errorf("a repeated call after its session moved: %v %v", res, err)
	}
	if b, err := os.ReadFile(filepath.Join(f.workspace, "once")); err != nil || string(b) != "one\n" {
		t.Errorf("the repeated call ran again: %q %v", b, err)
	}
	if res := <-long; !res.Success || res.Output != "whole\n" {
		t.Errorf("the call that ran: %s", res)
	}
	<-owner.ended
}

// TestFleetGatewayStops stops the process of a gateway while the gateway forwards the output of a call. A stopped
// process keeps its connections, so only the owner can notice the stop. The owner must end the call, and the session
// must answer again.
func TestFleetGatewayStops(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	f.nodes["one"].want("s", "true")
	owner, gateway := f.owner("s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// The output never ends, and soon fills all buffers, but takes little time of the processors. The timeout of the
	// command is longer than the test waits, so that it does not end the call.
	endless := "touch begun; exec 9<> <(:); printf -v block %65536s; while true; do printf %s \"$block\"; read -rt .02 -u 9; done"
	call := fleetCall{Name: "bash", Arguments: map[string]any{"command": endless, "timeout": 600_000}, Session: "s"}
	go func() { _, _ = gateway.call(ctx, call) }()
	hosttest.Wait(t, "the call runs", func() bool {
		_, err := os.Stat(filepath.Join(f.workspace, "begun"))
		return err == nil
	})
	gateway.signal(syscall.SIGSTOP)
	defer gateway.signal(syscall.SIGCONT)
	c := hosttest.NewClient(t, owner.address(), hosttest.ServerToken)
	hosttest.Wait(t, "the owner ends the call", func() bool {
		var calls struct{ Total *int }
		_, body := c.Do("GET", "/v1/calls", "")
		return json.Unmarshal([]byte(body), &calls) == nil && calls.Total != nil && *calls.Total == 0
	})
	owner.want("s", "echo free")
}

// TestFleetCopiedNode starts a process with a copy of the state directory of a running node. The two processes have the
// same identity, so only one of them may have a lease.
func TestFleetCopiedNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	two := f.nodes["two"]
	for i := range 4 {
		two.want("s"+strconv.Itoa(i), "true")
	}
	hosttest.Must(t, exec.Command("cp", "-a", filepath.Join(f.dir, "two"), filepath.Join(f.dir, "copy")).Run())
	twin := &fleetNode{fleet: f, name: "two", state: filepath.Join(f.dir, "copy", "state"), listen: fleetPort(t)}
	err := twin.tryRun()
	if err == nil {
		twin.kill()
		t.Fatal("a copy of a running node joined the fleet")
	}
	if said := twin.said(); !strings.Contains(said, "a copy of its state directory") {
		t.Errorf("the copy printed: %s", said)
	}
	for i := range 4 {
		if res := two.want("s"+strconv.Itoa(i), "echo whole"); res.Output != "whole\n" {
			t.Errorf("the session moved because of the copy: %q", res.Output)
		}
	}
	// After the node has ended, its copy counts as the same node on another machine. The copy waits for the end of the
	// lease.
	two.kill()
	hosttest.Must(t, twin.tryRun())
	f.nodes["twin"] = twin
	if res := twin.want("s0", "echo moved"); !strings.HasPrefix(res.Output, "moved\n") {
		t.Errorf("%q", res.Output)
	}
}

// TestFleetCallsWithoutGateway kills gateways at different times during a call, and repeats the call with the same id
// through another gateway. The call must run at most once. The repetition must succeed, report that the call may have
// run, or report that the call was canceled.
func TestFleetCallsWithoutGateway(t *testing.T) {
	t.Parallel()
	f, withLocal := newFleetWithLocal(t, "")
	owner := f.startNode(&fleetNode{fleet: f, name: "owner", state: filepath.Join(f.dir, "owner", "state"), listen: fleetPort(t), config: withLocal})
	gateway := f.start("gateway")
	if res, err := owner.call(t.Context(), fleetCall{Command: "true", Workspace: "local", Session: "l"}); err != nil || !res.Success {
		t.Fatalf("%v %v", res, err)
	}
	for i := range 12 {
		file := "f" + strconv.Itoa(i)
		call := fleetCall{Command: "echo ran >> " + file, Workspace: "local", Session: "l", CallID: "c" + strconv.Itoa(i)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = gateway.call(t.Context(), call) // ignore the error, because the gateway is killed
		}()
		time.Sleep(time.Duration(i) * time.Millisecond) // a call takes a few milliseconds
		gateway.signal(syscall.SIGKILL)
		<-done
		<-gateway.ended
		res, err := owner.call(t.Context(), call)
		hosttest.Must(t, err)
		b, _ := os.ReadFile(filepath.Join(f.dir, "local", file))
		if ran := strings.Count(string(b), "ran"); ran > 1 || res.Success && ran != 1 || !res.Success && res.Error.Code != 520 && res.Error.Kind != "canceled" {
			t.Errorf("after %d ms: the call ran %d times, and its repetition returned %s", i, ran, res)
		}
		gateway.run()
	}
	// The gateway disconnects when it receives the message that the call is about to begin.
	call := fleetCall{Command: "echo ran >> never", Workspace: "local", Session: "l", CallID: "never"}
	f.withoutProceed(owner, gateway, call)
	res, err := owner.call(t.Context(), call)
	hosttest.Must(t, err)
	if b, _ := os.ReadFile(filepath.Join(f.dir, "local", "never")); !res.Success || string(b) != "ran\n" || res.Metadata["repeated"] == true {
		t.Errorf("the repetition of a call that its gateway did not let begin: %s %q", res, b)
	}
}

// TestFleetDemo runs the demo of a fleet as a new user would, and ends it with Ctrl-C.
func TestFleetDemo(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../../..")
	hosttest.Must(t, err)
	_, port, _ := strings.Cut(fleetPort(t), ":")
	c := exec.Command(filepath.Join(root, "demo-fleet.sh"))
	dir := t.TempDir()
	c.Env = append(os.Environ(), "TOOLHOST_BIN="+hosttest.Bin, "FLEET_PORT="+port, "TMPDIR="+dir)
	out, err := os.Create(filepath.Join(dir, "out"))
	hosttest.Must(t, err)
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	hosttest.Must(t, c.Start())
	said := func() string {
		b, err := os.ReadFile(out.Name())
		hosttest.Must(t, err)
		return string(b)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() { _ = c.Process.Signal(os.Interrupt) })
	for end := time.Now().Add(time.Minute); !strings.Contains(said(), "until Ctrl-C") && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	if out := said(); strings.Count(out, "a file of the shared workspace") != 2 || !strings.Contains(out, "the session knows green on either node") || !strings.Contains(out, "1 of 1 coordinator") {
		t.Errorf("the demo printed:\n%s", out)
	}
	hosttest.Must(t, c.Process.Signal(os.Interrupt))
	select {
	case <-ended:
	case <-hosttest.Late(t):
		t.Error("the demo does not end")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "tmp.*")); err != nil || len(left) > 0 {
		t.Errorf("the demo did not remove %v: %v", left, err)
	}
}

// TestFleetLostRecords removes the store of the coordinator. The nodes must refuse calls and report the reason until
// they are restarted.
func TestFleetLostRecords(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	one, two := f.nodes["one"], f.nodes["two"]
	one.want("s", "mkdir -p sub && cd sub")
	hosttest.Must(t, os.Rename(filepath.Join(one.state, "fleet", "coordinator"), filepath.Join(f.dir, "lost")))
	b, err := os.ReadFile(filepath.Join(f.dir, "lost", "lock"))
	hosttest.Must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	hosttest.Must(t, err)
	hosttest.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	hosttest.Wait(t, "both nodes report the lost records", func() bool {
		return strings.Contains(one.do("fleet", "status"), "have lost the records") && strings.Contains(two.said(), "have lost the records")
	})
	if res, err := two.call(t.Context(), fleetCall{Command: "echo x >> log", Session: "s"}); err != nil || res.Error == nil || res.Error.Code != 521 {
		t.Errorf("without records: %v %v", res, err)
	}
	one.kill()
	one.run()
	if out := two.do("fleet", "status"); !strings.Contains(out, "have lost the records") {
		t.Errorf("a node that was not restarted:\n%s", out)
	}
	two.kill()
	two.run()
	for _, n := range []*fleetNode{one, two} {
		n.want("s", "echo x >> log")
	}
	if out := two.do("fleet", "status"); strings.Contains(out, "problem:") || strings.Count(out, "ready") != 2 {
		t.Errorf("after the restart:\n%s", out)
	}
}
