package mcp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/tool"
)

// TestParkedCallsOfOthers checks that the parked calls of one principal do not displace the parked calls of another
// principal.
func TestParkedCallsOfOthers(t *testing.T) {
	l := newParkedCalls(time.Hour, nil, nil)
	park := func(owner string) error {
		_, err := l.park(&run{owner: owner, stop: func(error) {}, done: closed}, nil)
		return err
	}
	for range maxParked {
		if err := park("a"); err != nil {
			t.Fatal(err)
		}
	}
	if park("a") == nil {
		t.Error("a principal has more parked calls than it may have")
	}
	if err := park("b"); err != nil {
		t.Error(err)
	}
	l.close()
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// plainKey seals without encryption, so that tests see the content.
type plainKey struct{ failing bool }

func (k plainKey) Seal(value, purpose []byte) (string, error) {
	if k.failing {
		return "", errors.New("no space left on device")
	}
	return string(purpose) + string(value), nil
}

func (plainKey) Unseal(text string, purpose []byte) ([]byte, error) {
	value, ok := strings.CutPrefix(text, string(purpose))
	if !ok {
		return nil, errors.New("another purpose")
	}
	return []byte(value), nil
}

// parkOne parks a call that asks one question and returns the state for its client.
func parkOne(t *testing.T, l *parkedCalls, in *incoming, continuation []byte) string {
	t.Helper()
	in.version, in.caps = stateless, &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}}
	r := l.begin(t.Context(), in, nil, func(r *run) *tool.Result {
		_, err := r.ask(mcp.InputRequestMap{"q": &mcp.ElicitParams{}}, continuation)
		return &tool.Result{Error: tool.AsError(err)}
	})
	out := l.wait(t.Context(), r)
	if out.requests == nil {
		t.Fatalf("the call does not ask: %+v", out.result)
	}
	return out.state
}

// TestForeignState checks that a request cannot continue or end a call that another request parked, even if it contains
// the state of that call.
func TestForeignState(t *testing.T) {
	l := newParkedCalls(time.Hour, plainKey{}, slog.New(slog.DiscardHandler))
	defer l.close()
	request := func(place, name, args string) *incoming {
		return &incoming{place: []string{place}, about: []string{"tools/call", name, args}}
	}
	for _, continuation := range [][]byte{nil, []byte("{}")} {
		own := request("a", "x", "{}")
		own.state = parkOne(t, l, own, continuation)
		for _, other := range []*incoming{request("b", "x", "{}"), request("a", "y", "{}"), request("a", "x", `{"a":1}`), request("a", "x{", "}")} {
			other.state = own.state
			if _, earlier, err := l.resume(t.Context(), other); !errors.Is(err, errState) || earlier != nil {
				t.Errorf("%v %v: %v", other.place, other.about, err)
			}
		}
		own.responses = mcp.InputResponseMap{"q": &mcp.ElicitResult{Action: "accept"}}
		if out, _, err := l.resume(t.Context(), own); err != nil || out.result == nil || out.result.Error != nil {
			t.Errorf("the owner: %+v %v", out.result, err)
		}
	}
}

// TestExpiredState checks how long a state is valid: in each process, for as long as a call waits for an answer.
func TestExpiredState(t *testing.T) {
	one, two := newParkedCalls(time.Minute, plainKey{}, slog.New(slog.DiscardHandler)), newParkedCalls(time.Minute, plainKey{}, slog.New(slog.DiscardHandler))
	defer one.close()
	in := &incoming{about: []string{"tools/call", "x", "{}"}}
	in.state = parkOne(t, one, in, []byte("{}"))
	two.states.now = func() time.Time { return time.Now().Add(58 * time.Second) }
	if _, earlier, err := two.resume(t.Context(), in); err != nil || earlier == nil || !bytes.Equal(earlier.continuation, []byte("{}")) {
		t.Errorf("before the end: %v", err)
	}
	for _, l := range []*parkedCalls{one, two} {
		l.states.now = func() time.Time { return time.Now().Add(time.Minute) }
		if _, earlier, err := l.resume(t.Context(), in); !errors.Is(err, errState) || earlier != nil {
			t.Errorf("after the end: %v", err)
		}
	}
}

// TestUnwrappedStates checks that a call gets a state that is valid only in this process if another process could not
// continue the call.
func TestUnwrappedStates(t *testing.T) {
	for name, tc := range map[string]struct {
		key          sealer
		continuation []byte
	}{"no continuation": {plainKey{}, nil}, "too large": {plainKey{}, make([]byte, maxContinuation+1)}, "no key": {plainKey{failing: true}, []byte("{}")}} {
		l := newParkedCalls(time.Hour, tc.key, slog.New(slog.DiscardHandler))
		in := &incoming{about: []string{"tools/call", "x", "{}"}}
		if in.state = parkOne(t, l, in, tc.continuation); strings.HasPrefix(in.state, wrapped) {
			t.Errorf("%s: the state is wrapped", name)
		}
		in.responses = mcp.InputResponseMap{"q": &mcp.ElicitResult{Action: "accept"}}
		if out, _, err := l.resume(context.Background(), in); err != nil || out.result == nil {
			t.Errorf("%s: %v", name, err)
		}
		l.close()
	}
}

// TestContinued checks that a client's answers are used only for the question to which they belong.
func TestContinued(t *testing.T) {
	c := &continued{continuation: []byte("1"), answers: mcp.InputResponseMap{"q": &mcp.ElicitResult{Action: "accept"}}}
	ask := mcp.InputRequestMap{"q": &mcp.ElicitParams{}}
	if c.answer(ask, []byte("1")) == nil {
		t.Error("the question is asked again")
	}
	for name, got := range map[string]mcp.InputResponseMap{
		"another question": c.answer(ask, []byte("2")), "a question of another call": c.answer(ask, nil),
		"one more request": c.answer(mcp.InputRequestMap{"q": &mcp.ElicitParams{}, "r": &mcp.ElicitParams{}}, []byte("1")), "a new call": (*continued)(nil).answer(ask, []byte("1")),
	} {
		if got != nil {
			t.Errorf("%s is answered", name)
		}
	}
}
