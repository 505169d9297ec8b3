package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// waitingCall is a call of alice that waits for an answer at the gateway.
type waitingCall struct {
	ask    string
	result <-chan string // the body of the answer, or the error of the connection
}

// begin begins a call at the gateway and waits for its ask.
func (a *askingFleet) begin(command, id string) *waitingCall {
	a.t.Helper()
	boss, alice := a.as(a.gateway, "boss"), a.as(a.gateway, "alice")
	got := make(chan string, 1)
	go func() {
		_, body, err := alice.Try(a.t.Context(), "POST", "/v1/run", fmt.Sprintf(`{"workspace":"repo","session":"s","command":%q,"call_id":%q}`, command, id))
		if err != nil {
			body = err.Error()
		}
		got <- body
	}()
	w := &waitingCall{result: got}
	hosttest.Wait(a.t, "the ask of "+id, func() bool {
		if len(got) > 0 {
			a.t.Fatalf("%s: nobody was asked: %s", id, <-got)
		}
		if ids := open(boss); len(ids) == 1 {
			w.ask = ids[0]
		}
		return w.ask != ""
	})
	return w
}

// answer answers the ask at a node.
func (a *askingFleet) answer(n *fleetNode, ask, outcome string, code int) {
	a.t.Helper()
	a.as(n, "boss").Want(code, "", "POST", "/v1/asks/"+ask, fmt.Sprintf(`{"outcome":%q}`, outcome))
}

// idle checks that no ask and no call is left at a node.
func (a *askingFleet) idle(n *fleetNode, when string) {
	a.t.Helper()
	hosttest.Wait(a.t, when+": no ask is left at "+n.name, func() bool { return len(open(a.as(n, "boss"))) == 0 })
	hosttest.Wait(a.t, when+": no call is left at "+n.name, func() bool {
		var calls struct{ Total *int }
		_, body := hosttest.NewClient(a.t, n.address(), hosttest.ServerToken).Do("GET", "/v1/calls", "")
		return json.Unmarshal([]byte(body), &calls) == nil && calls.Total != nil && *calls.Total == 0
	})
}

// noPreview checks that no preview of a call is left at a node.
func (a *askingFleet) noPreview(n *fleetNode) {
	a.t.Helper()
	hosttest.Wait(a.t, "no preview is left at "+n.name, func() bool {
		left, err := filepath.Glob(filepath.Join(n.state, "branches", "preview-*"))
		return err == nil && len(left) == 0
	})
}

// times returns how often the commands of a test ran.
func (a *askingFleet) times() int {
	a.t.Helper()
	b, err := os.ReadFile(filepath.Join(a.workspace, "ran"))
	if err != nil && !os.IsNotExist(err) {
		a.t.Fatal(err)
	}
	return strings.Count(string(b), "ran\n")
}

// The command "removing" runs in a preview before its ask. The command "publishing" does not run before the answer.
const (
	removing   = "rm one; echo ran >> ran"
	publishing = "git push; echo ran >> ran"
)

// TestFleetAskOutlivesNoNode takes a node away while a call waits for an answer: the owner of the session is drained,
// stopped or killed, or the gateway is killed. The caller or the operator learns what to do, no answer counts for
// another call, nothing runs twice, and the nodes that are left go on.
func TestFleetAskOutlivesNoNode(t *testing.T) {
	t.Parallel()
	for shape, command := range map[string]string{"a preview": removing, "no preview": publishing} {
		t.Run("the owner is drained, "+shape, func(t *testing.T) {
			t.Parallel()
			a := newAskingFleet(t)
			w := a.begin(command, "first")
			for _, args := range [][]string{{"fleet", "drain", a.owner.name, "--wait", "1s"}, {"fleet", "move", "s", "--to", a.gateway.name, "--wait", "1s"}} {
				a.owner.refused("waits for an answer", args...)
			}
			if n := a.times(); n != 0 {
				t.Errorf("the command ran %d times before the answer", n)
			}
			a.answer(a.gateway, w.ask, "accepted", 200)
			if got := <-w.result; !strings.Contains(got, `"success":true`) && shape == "a preview" {
				t.Errorf("after the answer: %s", got)
			}
			if n := a.times(); n != 1 {
				t.Errorf("the command ran %d times", n)
			}
			a.idle(a.owner, "answered")
			a.idle(a.gateway, "answered")
			a.owner.do("fleet", "drain", a.owner.name, "--wait", "20s")
			if got := a.run(a.gateway, "alice", "echo moved", "next"); !strings.Contains(got, "moved") || !strings.Contains(got, `"node":"`+a.gateway.name+`"`) {
				t.Errorf("the next call: %s", got)
			}
		})
		t.Run("the owner stops, "+shape, func(t *testing.T) {
			t.Parallel()
			a := newAskingFleet(t)
			w := a.begin(command, "first")
			a.owner.signal(syscall.SIGTERM)
			<-a.owner.ended
			a.lostOwner(w, command, "because the host was stopped")
		})
		t.Run("the owner is killed, "+shape, func(t *testing.T) {
			t.Parallel()
			a := newAskingFleet(t)
			w := a.begin(command, "first")
			a.owner.kill()
			a.lostOwner(w, command, "Read the files before you repeat it")
		})
		t.Run("the gateway is killed, "+shape, func(t *testing.T) {
			t.Parallel()
			a := newAskingFleet(t)
			w := a.begin(command, "first")
			a.gateway.kill()
			if got := <-w.result; strings.Contains(got, `"success":true`) {
				t.Errorf("the caller got %s", got)
			}
			a.idle(a.owner, "without the gateway")
			a.noPreview(a.owner)
			a.answer(a.owner, w.ask, "accepted", 404)
			a.gateway = a.owner
			a.again(command)
		})
	}
}

// lostOwner checks a call whose owner is gone while its ask was open. If the call ran in a preview, the text "why"
// is in its result, and in the answer to a repetition.
func (a *askingFleet) lostOwner(w *waitingCall, command, why string) {
	t := a.t
	t.Helper()
	boss := a.as(a.gateway, "boss")
	next, result := "", ""
	hosttest.Wait(t, "the call ends or asks again", func() bool {
		if len(w.result) > 0 {
			result = <-w.result
			return true
		}
		if ids := open(boss); len(ids) == 1 && ids[0] != w.ask {
			next = ids[0]
		}
		return next != ""
	})
	a.answer(a.gateway, w.ask, "accepted", 404) // an answer to the lost ask counts for no other
	if n := a.times(); n != 0 {
		t.Errorf("the command ran %d times before an answer", n)
	}
	// A preview can have reached other machines, so that the command is not run a second time.
	if asksAgain := command == publishing; asksAgain != (next != "") || !asksAgain && !strings.Contains(result, why) {
		t.Errorf("the call asks again: %t, want %t; the caller got %s", next != "", asksAgain, result)
	}
	if next != "" {
		a.answer(a.gateway, next, "declined", 200)
		<-w.result
	}
	a.idle(a.gateway, "without the owner")
	a.noPreview(a.gateway)
	if got := a.again(command); next == "" && !strings.Contains(got, why) {
		t.Errorf("the repetition got %s, want %q", got, why)
	}
}

// again repeats a command at the gateway under a new id and then under the first one, and answers what is asked. It
// returns the answer to the first id.
func (a *askingFleet) again(command string) (got string) {
	t := a.t
	t.Helper()
	w := a.begin(command, "second")
	a.answer(a.gateway, w.ask, "accepted", 200)
	second := <-w.result
	if n := a.times(); n != 1 {
		t.Errorf("the command ran %d times under a new id: %s", n, second)
	}
	done := make(chan string, 1)
	go func() { done <- a.run(a.gateway, "alice", command, "first") }()
	boss := a.as(a.gateway, "boss")
	hosttest.Wait(t, "the repetition ends", func() bool {
		if ids := open(boss); len(ids) == 1 {
			boss.Do("POST", "/v1/asks/"+ids[0], `{"outcome":"declined"}`) // the ask can have ended
		}
		if len(done) > 0 {
			got = <-done
		}
		return got != ""
	})
	if n := a.times(); n != 1 || strings.Contains(got, `"success":true`) {
		t.Errorf("the command ran %d times; the repetition: %s", n, got)
	}
	if got := a.run(a.gateway, "alice", "echo the next", "next"); !strings.Contains(got, "the next") {
		t.Errorf("the next call: %s", got)
	}
	a.idle(a.gateway, "at the end")
	return got
}

// TestFleetStoppedCall stops the owner of a session while a command runs longer than the host waits. A repetition of
// the call at another node tells that the host ended it.
func TestFleetStoppedCall(t *testing.T) {
	t.Parallel()
	a := newAskingFleetWith(t, `host { shutdown_timeout = "100ms" }`)
	const command = "echo ran >> ran; sleep 600"
	alice := a.as(a.gateway, "alice")
	go func() {
		_, _, _ = alice.Try(t.Context(), "POST", "/v1/run", fmt.Sprintf(`{"workspace":"repo","session":"s","command":%q,"call_id":"first"}`, command)) // the node can be lost
	}()
	hosttest.Wait(t, "the command runs", func() bool { return a.times() == 1 })
	a.owner.signal(syscall.SIGTERM)
	<-a.owner.ended
	if got := a.run(a.gateway, "alice", command, "first"); !strings.Contains(got, "because the host was stopped while it ran") || a.times() != 1 {
		t.Errorf("the command ran %d times; the repetition got %s", a.times(), got)
	}
}
