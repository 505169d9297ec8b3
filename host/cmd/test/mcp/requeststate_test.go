package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// rawClient sends requests of the stateless protocol. Unlike an SDK, it does not answer the questions of servers
// automatically.
type rawClient struct{ base, token, endpoint string }

// rawResult is the part of a response that the tests use.
type rawResult struct {
	Result struct {
		RequestState  string                     `json:"requestState"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		Content       []struct{ Text string }    `json:"content"`
		Messages      json.RawMessage            `json:"messages"`
	} `json:"result"`
	Error *struct {
		Code    int
		Message string
	} `json:"error"`
}

// String describes the result as a person would see it.
func (r *rawResult) String() string {
	switch {
	case r.Error != nil:
		return fmt.Sprintf("%d %s", r.Error.Code, r.Error.Message)
	case len(r.Result.InputRequests) > 0:
		return fmt.Sprintf("asks %s", r.Result.InputRequests)
	case len(r.Result.Content) > 0:
		return r.Result.Content[0].Text
	}
	return string(r.Result.Messages)
}

func (c rawClient) send(t *testing.T, method, name string, args any, state string, answers map[string]any) *rawResult {
	t.Helper()
	params := map[string]any{"name": name, "arguments": args, "_meta": map[string]any{
		mcp.MetaKeyProtocolVersion: "2026-07-28", mcp.MetaKeyClientInfo: map[string]any{"name": "raw", "version": "1"},
		mcp.MetaKeyClientCapabilities: map[string]any{"elicitation": map[string]any{"form": map[string]any{}}, "roots": map[string]any{}},
	}}
	if state != "" {
		params["requestState"], params["inputResponses"] = state, answers
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	hosttest.Must(t, err)
	b := hosttest.PostStateless(t, c.base+"/mcp"+c.endpoint, c.token, method, name, "", body)
	for line := range strings.Lines(string(b)) {
		data, _ := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		out := new(rawResult)
		if json.Unmarshal([]byte(data), out) == nil && (out.Error != nil || strings.Contains(data, `"result"`)) {
			return out
		}
	}
	t.Fatalf("no result: %s", b)
	return nil
}

func accept(key, field string, value any) map[string]any {
	return map[string]any{key: map[string]any{"action": "accept", "content": map[string]any{field: value}}}
}

const refusedState = "-32602 the requestState is unknown, used, expired or from another call; call again without requestState"

// TestRequestState checks that a call that waits for an answer can continue at another host with the same state
// directory. The call must not continue for another caller or as another call.
func TestRequestState(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	config := everything(t, "") + fmt.Sprintf(`
field "twin" {
  sandbox { read = [%q] }
  mcp { command = [%q] }
}
field "big" {
  mcp { command = [%q, "asks"] }
}
principal "alice" {}
principal "bob" {}
endpoint "found" { mode = "lazy" }
`, hosttest.Bin, filepath.Join(hosttest.Bin, "everything"), filepath.Join(hosttest.Bin, "testserver"))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	token := func(name string) string {
		out, err := hosttest.Toolhost(t, dir, "token", "create", name).Output()
		hosttest.Must(t, err)
		return strings.TrimSpace(string(out))
	}
	alice, bob := token("alice"), token("bob")
	one, _ := hosttest.Serve(t, dir)
	two, _ := hosttest.Serve(t, dir)
	a, b, foreign := rawClient{base: one, token: alice}, rawClient{base: two, token: alice}, rawClient{base: two, token: bob}
	const rounds, confirm = "test_input_required_result_multi_round", "test_input_required_result_tampered_state"

	t.Run("both hosts", func(t *testing.T) {
		first := a.send(t, "tools/call", rounds, map[string]any{}, "", nil)
		if strings.Contains(first.Result.RequestState, "round=1") || first.Result.InputRequests["step1"] == nil {
			t.Fatalf("the client sees the state of the server: %s, %s", first, first.Result.RequestState)
		}
		name := accept("step1", "name", "Ada")
		second := b.send(t, "tools/call", rounds, map[string]any{}, first.Result.RequestState, name)
		if second.Result.InputRequests["step2"] == nil {
			t.Fatalf("the other host does not continue the call: %s", second)
		}
		color := accept("step2", "color", "red")
		if got := a.send(t, "tools/call", rounds, map[string]any{}, second.Result.RequestState, color).String(); got != "Multi-round complete: Ada likes red" {
			t.Error(got)
		}
		if got := a.send(t, "tools/call", rounds, map[string]any{}, first.Result.RequestState, name); got.Result.InputRequests["step2"] == nil {
			t.Errorf("the first host no longer continues its own call: %s", got)
		}
		if got := a.send(t, "tools/call", rounds, map[string]any{}, first.Result.RequestState, name).String(); got != refusedState {
			t.Errorf("a state was used twice: %s", got)
		}
		prompt := a.send(t, "prompts/get", "test_input_required_result_prompt", map[string]any{}, "", nil)
		if got := b.send(t, "prompts/get", "test_input_required_result_prompt", map[string]any{}, prompt.Result.RequestState, accept("user_context", "context", "ships")).String(); !strings.Contains(got, "ships") {
			t.Errorf("a prompt at the other host: %s", got)
		}
		again := b.send(t, "tools/call", confirm, map[string]any{}, a.send(t, "tools/call", confirm, map[string]any{}, "", nil).Result.RequestState, map[string]any{})
		if again.Result.InputRequests["confirm"] == nil || again.Result.RequestState == "" {
			t.Errorf("without an answer, the question is not repeated: %s", again)
		}
		if got := a.send(t, "tools/call", confirm, map[string]any{}, again.Result.RequestState, accept("confirm", "ok", "yes")).String(); strings.Contains(got, "state-ok") {
			t.Errorf("an answer that does not fit the form: %s", got)
		}
	})
	t.Run("lines of bash", func(t *testing.T) { // the state would be bound to bash, and not to the field
		line := map[string]any{"command": "field:test " + confirm}
		first := a.send(t, "tools/call", "bash", line, "", nil)
		if first.Result.InputRequests["confirm"] == nil {
			t.Fatalf("%s", first)
		}
		if got := b.send(t, "tools/call", "bash", line, first.Result.RequestState, accept("confirm", "ok", true)).String(); got != refusedState {
			t.Errorf("another host continues it: %s", got)
		}
		if got := a.send(t, "tools/call", "bash", line, first.Result.RequestState, accept("confirm", "ok", true)).String(); !strings.HasPrefix(got, "state-ok") {
			t.Error(got)
		}
	})
	t.Run("found tools", func(t *testing.T) { // the endpoint does not list these tools
		a, b := a, b
		a.endpoint, b.endpoint = "/found", "/found"
		state := func() string { return a.send(t, "tools/call", confirm, map[string]any{}, "", nil).Result.RequestState }
		yes := accept("confirm", "ok", true)
		for _, c := range []rawClient{a, b} {
			for _, other := range []string{"test_input_required_result_request_state", rounds} {
				if got := c.send(t, "tools/call", other, map[string]any{}, state(), yes).String(); got != refusedState {
					t.Errorf("%s continues the call of another tool: %s", other, got)
				}
			}
			if got := c.send(t, "tools/call", confirm, map[string]any{}, state(), yes).String(); !strings.Contains(got, "state-ok") {
				t.Errorf("its own call does not continue: %s", got)
			}
		}
	})
	t.Run("others", func(t *testing.T) {
		state := a.send(t, "tools/call", confirm, map[string]any{}, "", nil).Result.RequestState
		yes := accept("confirm", "ok", true)
		for _, tc := range []struct {
			name   string
			client rawClient
			method string
			tool   string
			args   map[string]any
			state  string
		}{
			{"another principal", foreign, "tools/call", confirm, nil, state},
			{"another principal at the first host", rawClient{base: one, token: bob}, "tools/call", confirm, nil, state},
			{"another tool", b, "tools/call", "test_input_required_result_request_state", nil, state},
			{"another field", b, "tools/call", "twin_" + confirm, nil, state},
			{"other arguments", b, "tools/call", confirm, map[string]any{"x": 1}, state},
			{"another method", b, "prompts/get", "test_input_required_result_prompt", nil, state},
			{"a suffix", b, "tools/call", confirm, nil, state + "-TAMPERED"},
			{"no prefix", b, "tools/call", confirm, nil, strings.TrimPrefix(state, "t1.")},
			{"only a prefix", b, "tools/call", confirm, nil, "t1."},
			{"the server's state", b, "tools/call", confirm, nil, "tampered_state"},
		} {
			if tc.args == nil {
				tc.args = map[string]any{}
			}
			if got := tc.client.send(t, tc.method, tc.tool, tc.args, tc.state, yes).String(); got != refusedState {
				t.Errorf("%s: %s", tc.name, got)
			}
		}
		sealed, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(state, "t1."))
		hosttest.Must(t, err)
		for _, at := range []int{0, 11, 12, len(sealed) / 2, len(sealed) - 17, len(sealed) - 16, len(sealed) - 1} { // nonce, value, tag
			changed := bytes.Clone(sealed)
			changed[at] ^= 0x20
			if got := b.send(t, "tools/call", confirm, map[string]any{}, "t1."+base64.RawURLEncoding.EncodeToString(changed), yes).String(); got != refusedState {
				t.Errorf("byte %d of %d is changed: %s", at, len(sealed), got)
			}
		}
		if got := a.send(t, "tools/call", confirm, map[string]any{}, state, yes).String(); !strings.HasPrefix(got, "state-ok") {
			t.Errorf("the attempts of others ended the call: %s", got)
		}
	})
	t.Run("sizes", func(t *testing.T) {
		size := map[string]any{"size": 64 << 10}
		state := a.send(t, "tools/call", "big_confirm", size, "", nil).Result.RequestState
		if got := b.send(t, "tools/call", "big_confirm", size, state, map[string]any{"sure": map[string]any{"action": "accept"}}).String(); got != "confirmed with a state of 65536 bytes" {
			t.Error(got)
		}
		if got := a.send(t, "tools/call", "big_confirm", map[string]any{"size": 64<<10 + 1}, "", nil).String(); !strings.Contains(got, "a requestState of 65537 bytes") || !strings.Contains(got, "The limit is 65536 bytes.") {
			t.Error(got)
		}
	})
	t.Run("key", func(t *testing.T) {
		key := filepath.Join(dir+".state", "seal.key")
		st, err := os.Stat(key)
		hosttest.Must(t, err)
		if st.Mode().Perm() != 0o600 {
			t.Errorf("the key has the mode %#o", st.Mode().Perm())
		}
		state := a.send(t, "tools/call", confirm, map[string]any{}, "", nil).Result.RequestState
		hosttest.Must(t, os.Remove(key))
		for name, c := range map[string]rawClient{"one": a, "two": b} {
			if got := c.send(t, "tools/call", confirm, map[string]any{}, state, accept("confirm", "ok", true)).String(); got != refusedState {
				t.Errorf("host %s accepts a state of a deleted key: %s", name, got)
			}
		}
		state = a.send(t, "tools/call", confirm, map[string]any{}, "", nil).Result.RequestState
		if got := b.send(t, "tools/call", confirm, map[string]any{}, state, accept("confirm", "ok", true)).String(); !strings.HasPrefix(got, "state-ok") {
			t.Errorf("with a new key: %s", got)
		}
	})
}
