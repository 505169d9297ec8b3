package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestOwnAnswerReleasesNothing checks that a caller over MCP cannot answer its own permission request: not with the
// answer to a form that it never got, not with the state of another call, and not by repeating the call. An approver
// answers it.
func TestOwnAnswerReleasesNothing(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	p := hosttest.NewPrincipals(t, `
permissions { policy = "careful" }
principal "alice" {}
principal "bob" {}
principal "boss" { role = "approver" }
`)
	file := filepath.Join(p.Dir, "notes.txt")
	alice, bob, boss := rawClient{base: p.Base, token: p.As("alice").Token}, rawClient{base: p.Base, token: p.As("bob").Token}, p.As("boss")
	remove := map[string]any{"command": "rm notes.txt"}
	question := map[string]any{"question": "May I?"}
	yes := accept("answer", "allow", true)

	// The question of the tool for questions goes to the caller itself, so its state is one that the caller may answer.
	state := alice.send(t, "tools/call", "ask_user", question, "", nil)
	if state.Result.RequestState == "" {
		t.Fatalf("the question: %s", state)
	}
	for what, given := range map[string]string{"a guessed state": "t1.AAAA", "the state of another call": state.Result.RequestState} {
		if got := alice.send(t, "tools/call", "bash", remove, given, yes).String(); got != refusedState {
			t.Errorf("%s: %s", what, got)
		}
	}
	if got := bob.send(t, "tools/call", "ask_user", question, state.Result.RequestState, yes).String(); got != refusedState {
		t.Errorf("another principal answers: %s", got)
	}
	for _, outcome := range []string{"declined", "accepted"} {
		done := make(chan string, 1)
		go func() { done <- alice.send(t, "tools/call", "bash", remove, "", nil).String() }()
		var asks []struct{ ID string }
		hosttest.Wait(t, "the ask", func() bool {
			asks = nil
			hosttest.Must(t, json.Unmarshal([]byte(boss.Want(200, "", "GET", "/v1/asks", "")), &asks))
			return len(asks) == 1
		})
		own := hosttest.NewClient(t, p.Base, alice.token)
		own.Want(403, "another principal must answer", "POST", "/v1/asks/"+asks[0].ID, `{"outcome":"accepted"}`)
		hosttest.NewClient(t, p.Base, bob.token).Want(404, "is open", "POST", "/v1/asks/"+asks[0].ID, `{"outcome":"accepted"}`)
		if got := alice.send(t, "tools/call", "bash", remove, asks[0].ID, yes).String(); got != refusedState {
			t.Errorf("the id of the ask as a state: %s", got)
		}
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("before the answer: %v", err)
		}
		boss.Want(200, outcome, "POST", "/v1/asks/"+asks[0].ID, `{"outcome":"`+outcome+`"}`)
		got := <-done
		if _, err := os.Stat(file); (err == nil) != (outcome == "declined") {
			t.Errorf("%s: %v, %s", outcome, err, got)
		}
	}
}
