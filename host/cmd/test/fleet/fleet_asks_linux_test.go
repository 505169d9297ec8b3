package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// askingFleet is a fleet of two nodes in careful mode with a caller and an approver. The session of the caller is on
// the node "owner", and its calls go to the node "gateway".
type askingFleet struct {
	*testFleet
	owner, gateway *fleetNode
}

func newAskingFleet(t *testing.T) *askingFleet {
	t.Helper()
	return newAskingFleetWith(t, `host { shutdown_timeout = "24h" }`)
}

// newAskingFleetWith is like newAskingFleet, with further settings.
func newAskingFleetWith(t *testing.T, more string) *askingFleet {
	t.Helper()
	hosttest.NeedsNamespaces(t)
	f, _ := newFleetWithLocal(t, more+`
permissions { policy = "careful" }
principal "alice" {
  workspaces = ["REPO"]
}
principal "boss" {
  role       = "approver"
  workspaces = ["REPO"]
}
`)
	hosttest.Must(t, os.WriteFile(filepath.Join(f.workspace, "one"), []byte("the work of a week\n"), 0o600))
	a := &askingFleet{testFleet: f}
	one, two := f.start("one"), f.start("two")
	body := a.run(one, "alice", "pwd", "s1")
	if !strings.Contains(body, f.workspace) {
		t.Fatal(body)
	}
	a.owner, a.gateway = one, two
	if strings.Contains(body, `"node":"two"`) {
		a.owner, a.gateway = two, one
	}
	return a
}

// as returns a client with a token for a principal at a node.
func (a *askingFleet) as(n *fleetNode, name string) *hosttest.Client {
	a.t.Helper()
	var made struct{ Token string }
	hosttest.Must(a.t, json.Unmarshal([]byte(n.do("token", "create", name, "--json")), &made))
	return hosttest.NewClient(a.t, n.address(), made.Token)
}

// run runs a command in the session of the caller. The id is that of the call.
func (a *askingFleet) run(n *fleetNode, name, command, id string) string {
	a.t.Helper()
	_, body := a.as(n, name).Do("POST", "/v1/run", fmt.Sprintf(`{"workspace":"repo","session":"s","command":%q,"call_id":%q}`, command, id))
	return body
}

// open returns the ids of the open asks that a client sees.
func open(c *hosttest.Client) (ids []string) {
	var list []struct{ ID string }
	hosttest.Must(c.T, json.Unmarshal([]byte(c.Want(200, "", "GET", "/v1/asks", "")), &list))
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

// TestFleetAskHasOneDoor checks that a caller of a fleet cannot release what a permission request holds back: at no
// node, by no answer, preview or repetition, and not by moving its session. Only the answer of an approver at the
// gateway does it.
func TestFleetAskHasOneDoor(t *testing.T) {
	t.Parallel()
	a := newAskingFleet(t)
	file := filepath.Join(a.workspace, "one")
	remains := func(when string) {
		t.Helper()
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	boss := a.as(a.gateway, "boss")
	for _, end := range []string{"declined", "accepted"} {
		done := make(chan string, 1)
		go func() { done <- a.run(a.gateway, "alice", "rm one", "rm-"+end) }()
		var ask string
		hosttest.Wait(t, "the ask is at the gateway", func() bool {
			if ids := open(boss); len(ids) == 1 {
				ask = ids[0]
			}
			return ask != ""
		})
		for what, n := range map[string]*fleetNode{"owner": a.owner, "gateway": a.gateway} {
			alice := a.as(n, "alice")
			code, body := alice.Do("POST", "/v1/asks/"+ask, `{"outcome":"accepted"}`)
			if code != 403 && code != 404 {
				t.Errorf("the caller answers at the %s: %d %s", what, code, body)
			}
			_, list := alice.Do("GET", "/v1/branches", "")
			var branches []struct{ Name string }
			_ = json.Unmarshal([]byte(list), &branches)
			for _, b := range branches {
				if code, body := alice.Do("POST", "/v1/branches/"+b.Name+"/apply", ""); code == 200 {
					t.Errorf("the caller applies %s at the %s: %s", b.Name, what, body)
				}
			}
			for _, action := range []string{"move", "drain"} {
				if code, body := alice.Do("POST", "/v1/fleet/"+action, `{"session":"s","node":"`+a.gateway.name+`","to":"`+a.gateway.name+`"}`); code != 403 {
					t.Errorf("the caller steers the fleet: %s: %d %s", action, code, body)
				}
			}
			remains("attempts at the " + what)
		}
		// The approver of the other node does not see the ask, so it can neither answer it by mistake.
		if code, body := a.as(a.owner, "boss").Do("POST", "/v1/asks/"+ask, `{"outcome":"accepted"}`); code != 404 {
			t.Errorf("the approver at the owner: %d %s", code, body)
		}
		remains("before the answer")
		boss.Want(200, end, "POST", "/v1/asks/"+ask, fmt.Sprintf(`{"outcome":%q}`, end))
		out := <-done
		if end == "declined" {
			remains(out)
			// The repetition of the call has the same result, and asks nobody.
			if again := a.run(a.gateway, "alice", "rm one", "rm-"+end); !strings.Contains(again, "was not confirmed") {
				t.Errorf("the repetition: %s", again)
			}
			remains("the repetition")
		} else if _, err := os.Stat(file); err == nil {
			t.Errorf("accepted: %s", out)
		}
	}
}
