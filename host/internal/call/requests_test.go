package call

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// answering is a client that answers requests.
type answering struct {
	Client
	asked  []tool.ClientRequest
	answer tool.Answer
}

func (a *answering) Ask(_ context.Context, ask tool.Ask) (tool.Answer, error) {
	a.asked = append(a.asked, ask.Requests...)
	return a.answer, nil
}

// TestRootsOfClients checks that a plugin sees only roots of a client that are in a root of the session.
func TestRootsOfClients(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &answering{answer: tool.Answer{Outcome: tool.Accepted, Content: json.RawMessage(fmt.Sprintf(`{"r":{"roots":[{"uri":"file:///"},{"uri":"file://%s","name":"n"},{"uri":"https://x/"},{"uri":"file://other%s"},{"uri":"file:///none"}]},"f":{"action":"accept"}}`, dir, dir))}}
	p := &peer{Client: c, call: &Call{Request: Request{Session: Session{Roots: []tool.Root{{Path: dir}}}}}}
	a, err := p.Ask(t.Context(), tool.Ask{Requests: []tool.ClientRequest{{Key: "r", Method: tool.MethodRoots}, {Key: "f", Method: tool.MethodElicit}}})
	want := fmt.Sprintf(`{"f":{"action":"accept"},"r":{"roots":[{"uri":"file://%s","name":"n"}]}}`, dir)
	if err != nil || string(a.Content) != want {
		t.Errorf("%s %v, want %s", a.Content, err, want)
	}
}

// TestRequestsAreLimited checks that a client gets neither too many nor unknown requests.
func TestRequestsAreLimited(t *testing.T) {
	var many []tool.ClientRequest
	for i := range maxRequests + 1 {
		many = append(many, tool.ClientRequest{Key: fmt.Sprint(i), Method: tool.MethodRoots})
	}
	for what, requests := range map[string][]tool.ClientRequest{
		"many": many, "unknown": {{Key: "a", Method: "tools/call"}}, "twice": {{Key: "a", Method: tool.MethodRoots}, {Key: "a", Method: tool.MethodRoots}},
		"large": {{Key: "a", Method: tool.MethodElicit, Params: json.RawMessage(`"` + strings.Repeat("x", maxRequestBytes) + `"`)}},
	} {
		c := &answering{answer: tool.Answer{Outcome: tool.Accepted}}
		p := &peer{Client: c, call: &Call{}}
		if a, err := p.Ask(t.Context(), tool.Ask{Requests: requests}); err != nil || a.Outcome == tool.Accepted || len(c.asked) > 0 {
			t.Errorf("%s: %+v %v", what, a, err)
		}
	}
}
