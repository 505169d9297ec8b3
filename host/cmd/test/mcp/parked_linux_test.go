package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// parking is a client of "toolhost mcp" without a session. Its user may never come back with an answer.
type parking struct {
	t   *testing.T
	dir string
	in  io.WriteCloser
	out *bufio.Reader
	id  int
	end func()
}

// newParking starts the server in careful mode.
func newParking(t *testing.T, args ...string) *parking {
	t.Helper()
	hosttest.NeedsNamespaces(t)
	dir := hosttest.MCPDir(t)
	file := filepath.Join(dir, "toolhost.hcl")
	b, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(file, append(b, "permissions { policy = \"careful\" }\n"...), 0o600))
	c := hosttest.Toolhost(t, dir, append([]string{"mcp"}, args...)...)
	p := &parking{t: t, dir: dir}
	p.in, p.out = hosttest.Piped(t, c)
	p.end = func() {
		_ = p.in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}
	return p
}

// call calls bash and returns the answer. A state continues an earlier call, and allows it.
func (p *parking) call(command, state string) *rawResult {
	p.t.Helper()
	p.id++
	params := map[string]any{"name": "bash", "arguments": map[string]any{"command": command}, "_meta": map[string]any{
		mcp.MetaKeyProtocolVersion: hosttest.Eras[2], mcp.MetaKeyClientInfo: map[string]any{"name": "raw", "version": "1"},
		mcp.MetaKeyClientCapabilities: map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
	}}
	if state != "" {
		params["requestState"], params["inputResponses"] = state, accept("answer", "allow", true)
	}
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.id, "method": "tools/call", "params": params})
	hosttest.Must(p.t, err)
	p.say(string(b))
	for {
		line, err := p.out.ReadBytes('\n')
		hosttest.Must(p.t, err)
		if strings.Contains(string(line), fmt.Sprintf(`"id":%d,`, p.id)) {
			out := new(rawResult)
			hosttest.Must(p.t, json.Unmarshal(line, out))
			return out
		}
	}
}

func (p *parking) say(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	hosttest.Must(p.t, err)
}

// TestParkedAsks leaves the question about a call open while other calls of its session run. They do not wait for the
// answer, which still counts if they left the session as it was, and what the person was shown.
func TestParkedAsks(t *testing.T) {
	t.Parallel()
	const previewed, publishing = "rm notes.txt", "true; git push; rm -f notes.txt"
	for name, tc := range map[string]struct {
		command, meanwhile, want string
		runs                     bool
	}{
		"a preview":                            {previewed, "echo meanwhile", "", true},
		"no preview":                           {publishing, "echo meanwhile", "", true},
		"a preview, another directory":         {previewed, "cd /; echo meanwhile", "other calls changed the session", false},
		"no preview, another directory":        {publishing, "cd /; echo meanwhile", "other calls changed the session", false},
		"no preview, a function":               {publishing, "git() { touch never; }; echo meanwhile", "other calls changed the session", false},
		"a preview of a file that was changed": {previewed, "tee notes.txt <<< meanwhile", "its changes could not be made", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newParking(t)
			p.call("x=1", "") // the shell has a state
			state := p.call(tc.command, "").Result.RequestState
			if got := p.call(tc.meanwhile, ""); !strings.Contains(got.String(), "meanwhile") {
				t.Errorf("the other call: %s", got)
			}
			got := p.call(tc.command, state)
			if _, err := os.Stat(filepath.Join(p.dir, "notes.txt")); os.IsNotExist(err) != tc.runs || !strings.Contains(got.String(), tc.want) {
				t.Errorf("%v; the call: %s", err, got)
			}
			if got := p.call("echo the next", "").String(); !strings.Contains(got, "the next") {
				t.Errorf("the next call: %s", got)
			}
			p.end()
			if !tc.runs { // an allowed preview is kept, so that it can be reverted
				p.nothingLeft()
			}
		})
	}
}

// TestAbandonedAsks checks what is left of a call whose client never answers its question: it cancels the request,
// which has its answer already, ends, or waits until the time for an answer is over.
func TestAbandonedAsks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		abandon func(p *parking, state string)
	}{
		"canceled": {nil, func(p *parking, _ string) {
			p.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, p.id))
		}},
		"closed": {nil, func(*parking, string) {}},
		"forgotten": {[]string{"--ask-timeout", "100ms"}, func(p *parking, state string) {
			p.nothingLeft()
			if got := p.call("rm notes.txt", state).String(); got != refusedState {
				p.t.Errorf("the late answer: %s", got)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newParking(t, tc.args...)
			tc.abandon(p, p.call("rm notes.txt", "").Result.RequestState)
			if got := p.call("echo the next", "").String(); !strings.Contains(got, "the next") {
				t.Errorf("the next call: %s", got)
			}
			p.end()
			p.nothingLeft()
			if _, err := os.Stat(filepath.Join(p.dir, "notes.txt")); err != nil {
				t.Error(err)
			}
		})
	}
}

// nothingLeft checks that no preview is left.
func (p *parking) nothingLeft() {
	p.t.Helper()
	hosttest.Wait(p.t, "no preview is left", func() bool {
		left, err := filepath.Glob(filepath.Join(p.dir+".state", "branches", "preview-*"))
		return err == nil && len(left) == 0
	})
}
