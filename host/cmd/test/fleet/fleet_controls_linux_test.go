package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fleetControl tests a guard of a fleet. If the guard is switched off while the faults of this control are caused, the
// judge must find a problem.
type fleetControl struct {
	guard string
	// with lists the guards that are switched off in both runs. The field "without" lists the same guards
	// and the tested guard. Guards overlap, so some problems are possible only if several guards are switched off. For
	// example, a node without a journal causes no problem while the guard of the lease stops it.
	with, without string
	problem       string // part of the problem that the judge must find without the guard
	fault         func(*fleetHistory, context.Context)
	time          time.Duration
}

var fleetControls = []fleetControl{
	{"once", "", "once", "ran twice", (*fleetHistory).stopOrKill, time.Minute},
	{"records", "", "records", "ran twice", (*fleetHistory).killDuringCall, 40 * time.Second},
	{"kill", "", "kill", "went on after", (*fleetHistory).stopWithQueue, 40 * time.Second},
	{"journal", "kill", "kill,journal", "of epoch", (*fleetHistory).stopWithQueue, 40 * time.Second},
	{"directory", "kill,journal", "kill,journal,directory", "both had epoch", (*fleetHistory).stopWithQueue, 40 * time.Second},
}

// controlRounds is the number of rounds within which the judge must notice a missing guard.
const controlRounds = 2

// TestFleetControls repeats the test of histories with one guard at a time switched off. Without the guard, the judge
// must find the problem that the guard prevents. With the guard, it must not find this problem. TOOLHOST_FLEET_CONTROLS
// contains the name of the guard to test, or 1 for all guards.
func TestFleetControls(t *testing.T) {
	chosen := os.Getenv("TOOLHOST_FLEET_CONTROLS")
	if chosen == "" {
		t.Skip("make soak-fleet runs it")
	}
	if os.Getenv("TOOLHOST_FLEET_INSIDE") == "" {
		program := controlProgram()
		for _, c := range fleetControls {
			if chosen != "1" && chosen != c.guard {
				continue
			}
			t.Run(c.guard, func(t *testing.T) {
				inNamespaces(t, "TestFleetControls", []string{"TOOLHOST_FLEET_GUARD=" + c.guard, "TOOLHOST_FLEET_PROGRAM=" + program})
			})
		}
		return
	}
	i := slices.IndexFunc(fleetControls, func(c fleetControl) bool { return c.guard == os.Getenv("TOOLHOST_FLEET_GUARD") })
	fleetControls[i].run(t)
}

// run checks that the judge finds the problem without the guard, and does not find it with the guard.
func (c *fleetControl) run(t *testing.T) {
	t.Helper()
	for _, p := range c.round(t, c.with) {
		if c.with == "" || strings.Contains(p, c.problem) {
			t.Errorf("with the guard %s, but without %q: %s", c.guard, c.with, p)
		}
	}
	for try := range controlRounds {
		problems := c.round(t, c.without)
		if i := slices.IndexFunc(problems, func(p string) bool { return strings.Contains(p, c.problem) }); i >= 0 {
			t.Logf("without %s, found in round %d: %s", c.without, try+1, problems[i])
			return
		}
		t.Logf("without %s, round %d: %v", c.without, try+1, problems)
	}
	t.Errorf("without %s, no history has the problem %q", c.without, c.problem)
}

// round returns the problems of one history that was recorded without the given guards.
func (c *fleetControl) round(t *testing.T, without string) []string {
	t.Helper()
	h := newFleetHistory(t, []string{"TOOLHOST_FLEET_WITHOUT=" + without}, os.Getenv("TOOLHOST_FLEET_PROGRAM"))
	defer h.fleet.end()
	h.rare = 8
	h.run(t, c.time, func(ctx context.Context) { c.fault(h, ctx) })
	return h.judge(t)
}

// stopOrKill stops the process of a node for a while, or kills it, so that another node takes its sessions. A stopped
// node could wrongly act for these sessions when it continues.
func (h *fleetHistory) stopOrKill(ctx context.Context) {
	n := h.nodes[1+rand.IntN(historyNodes-1)]
	if rand.IntN(4) == 0 {
		n.kill()
		pause(ctx, 3*time.Second)
		h.restart(n)
		return
	}
	n.signal(syscall.SIGSTOP)
	pause(ctx, 5*time.Second)
	n.signal(syscall.SIGCONT)
}

// directed is one fault that is directed at a session of the history, together with the calls of the fault.
type directed struct {
	h       *fleetHistory
	session string
	name    string // prefix of the ids of its calls
	client  int
	owner   *fleetNode
	others  []*fleetNode
}

// direct chooses a session and finds its owner. It returns nil if the session does not answer.
func (h *fleetHistory) direct(ctx context.Context) *directed {
	h.mu.Lock()
	h.directed++
	d := &directed{h: h, name: fmt.Sprintf("d%d", h.directed), client: (1000 + h.directed) * 1_000_000, session: fmt.Sprintf("s%d", h.directed%historySessions)}
	h.mu.Unlock()
	res := d.try(ctx, h.nodes, fleetCall{Command: "true", Session: d.session, CallID: d.name + ".owner"})
	if res == nil || !res.Success {
		return nil
	}
	for _, n := range h.nodes {
		if n.name == res.Metadata["node"] {
			d.owner = n
		} else {
			d.others = append(d.others, n)
		}
	}
	return d
}

// try sends a call through the given nodes, one after the other, until the call succeeds or its outcome is unknown.
func (d *directed) try(ctx context.Context, nodes []*fleetNode, call fleetCall) (res *fleetResult) {
	for _, n := range nodes {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		out, err := n.call(c, call)
		cancel()
		if err == nil {
			res = out
		}
		if err == nil && (out.Success || out.unknown()) {
			break
		}
	}
	return res
}

// appends runs the command "before" and then appends a line to the file of the session. It records the call in the
// history.
func (d *directed) appends(ctx context.Context, i int, id, before string, nodes ...*fleetNode) *fleetResult {
	call := fleetCall{Session: d.session, CallID: id, Command: fmt.Sprintf("%secho %s >> %s.txt", before, id, d.session)}
	start := time.Since(d.h.began)
	res := d.try(ctx, nodes, call)
	d.h.note(d.client+i, "append", call, start, res)
	return res
}

// begun waits until the file of the session contains a line, for at most five seconds.
func (d *directed) begun(ctx context.Context, line string) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		b, _ := os.ReadFile(filepath.Join(d.h.fleet.workspace, d.session+".txt"))
		if slices.Contains(strings.Fields(string(b)), line) {
			return
		}
	}
}

// stopWithQueue stops the owner of a session while one call of the session runs and another one waits. Then it calls
// the session through all other nodes at the same time, and continues the owner when they have answered. If a guard is
// missing, the running call can still change files, and the waiting call can begin. Both calls are sent to the owner
// itself, so no gateway cancels them.
func (h *fleetHistory) stopWithQueue(ctx context.Context) {
	d := h.direct(ctx)
	if d == nil {
		return
	}
	var old, next sync.WaitGroup
	long, waits := d.name+".long", d.name+".waits"
	old.Go(func() {
		d.appends(ctx, 0, long, fmt.Sprintf("echo '<%s' >> %s.txt; sleep 6; ", long, d.session), d.owner)
	})
	d.begun(ctx, "<"+long)
	old.Go(func() { d.appends(ctx, 1, waits, "", d.owner) })
	pause(ctx, 400*time.Millisecond) // time for the call to arrive at the session
	d.owner.signal(syscall.SIGSTOP)
	for i, n := range d.others {
		next.Go(func() { d.appends(ctx, 2+i, fmt.Sprintf("%s.%s", d.name, n.name), "", n) })
	}
	next.Wait()
	d.owner.signal(syscall.SIGCONT)
	old.Wait()
}

// killDuringCall kills the owner of a session when a call has changed a file but is not yet answered. The client then
// repeats the call through another node.
func (h *fleetHistory) killDuringCall(ctx context.Context) {
	d := h.direct(ctx)
	if d == nil || d.owner == h.nodes[0] { // the first node runs the coordinator
		return
	}
	id := d.name + ".twice"
	call := fleetCall{Session: d.session, CallID: id, Command: fmt.Sprintf("echo %s >> %s.txt; sleep 4", id, d.session)}
	start := time.Since(h.began)
	first := make(chan *fleetResult)
	go func() { first <- d.try(ctx, d.others[:1], call) }()
	d.begun(ctx, id)
	d.owner.kill()
	res := <-first
	if again := d.try(ctx, d.others, call); again != nil && again.Success {
		res = again
	}
	h.note(d.client, "append", call, start, res)
	h.restart(d.owner)
}
