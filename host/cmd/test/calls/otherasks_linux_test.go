package calls

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestAsksOfAnotherProcess checks that permission requests of "toolhost mcp" can be answered through a server in
// another process. This must work for a client that cannot ask its user, and for a client whose user does not answer.
// If there is no server, nobody is asked.
func TestAsksOfAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	file := filepath.Join(dir, "toolhost.hcl")
	b, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(file, append(b, `
permissions {
  ask "touching" { command = "touch *" }
}
principal "lead" {
  role        = "approver"
  answers_for = ["nobody"]
}
principal "nobody" {}
`...), 0o600))
	hosttest.Must(t, hosttest.Toolhost(t, dir, "version").Run()) // any command makes the wrapper trust the file

	touch := map[string]any{"command": "touch made"}
	made := func() bool { _, err := os.Stat(filepath.Join(dir, "made")); return err == nil }
	alone := hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, nil, nil)
	if got := hosttest.Text(t, hosttest.CallTool(t, alone, "bash", touch)); made() || !strings.Contains(got, "needs a confirmation") {
		t.Errorf("without a server: %s", got)
	}
	// Use another command, because the host remembers that nobody could be asked about the first command.
	touch = map[string]any{"command": "touch ./made"}

	base, _ := hosttest.Serve(t, dir)
	approver := hosttest.NewClient(t, base, hosttest.ApproverToken)
	out, err := hosttest.Toolhost(t, dir, "token", "create", "lead").Output()
	hosttest.Must(t, err)
	lead := hosttest.NewClient(t, base, strings.TrimSpace(string(out)))
	var silent atomic.Bool
	silent.Store(true)
	mute := &hosttest.User{Reply: &mcp.ElicitResult{Action: "cancel"}, Meanwhile: func() {
		for silent.Load() {
			time.Sleep(10 * time.Millisecond)
		}
	}}
	defer silent.Store(false)
	for name, s := range map[string]*mcp.ClientSession{
		"a client that cannot ask": alone, "a user who does not answer": hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, mute, nil),
	} {
		for _, outcome := range []string{"declined", "accepted"} {
			result := make(chan string, 1)
			go func() {
				res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "bash", Arguments: touch})
				if err != nil {
					result <- err.Error()
					return
				}
				result <- hosttest.Text(t, res)
			}()
			var list []struct{ ID, Digest, Principal string }
			hosttest.Wait(t, name+": the ask is in the list", func() bool {
				_, body := approver.Do("GET", "/v1/asks", "")
				if len(result) > 0 {
					t.Fatalf("%s: nobody was asked: %s", name, <-result)
				}
				return json.Unmarshal([]byte(body), &list) == nil && len(list) == 1
			})
			if !strings.Contains(list[0].Principal, "toolhost mcp") {
				t.Errorf("%s: asked by %q", name, list[0].Principal)
			}
			lead.Want(200, "[]", "GET", "/v1/asks", "")
			lead.Want(404, "is open", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"accepted"}`)
			approver.Want(409, "another content", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"accepted","digest":"sha256:0"}`)
			approver.Want(200, outcome, "POST", "/v1/asks/"+list[0].ID, `{"outcome":"`+outcome+`","digest":"`+list[0].Digest+`"}`)
			got := <-result
			if made() != (outcome == "accepted") {
				t.Errorf("%s: %s: %s", name, outcome, got)
			}
			_ = os.Remove(filepath.Join(dir, "made"))
			approver.Want(404, "is open", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"accepted"}`)
		}
	}
	hearsWhoAnswers(t, dir, approver, touch)
	wrong := &hosttest.User{Reply: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": "perhaps"}}}
	if got := hosttest.Text(t, hosttest.CallTool(t, hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, wrong, nil), "bash", touch)); made() || !strings.Contains(got, "the answer of the client is not valid") {
		t.Errorf("a wrong answer to the form: %s", got)
	}
	log, err := hosttest.Toolhost(t, dir, "log", "--tool", "bash", "--json").Output()
	hosttest.Must(t, err)
	if !strings.Contains(string(log), "by approver-token") && !strings.Contains(string(log), "approver-token") {
		t.Errorf("the log does not name the approver: %.600s", log)
	}
}

// hearsWhoAnswers checks that a client that cannot ask its user hears at once that its call waits, and where the answer
// can be given.
func hearsWhoAnswers(t *testing.T, dir string, approver *hosttest.Client, touch map[string]any) {
	t.Helper()
	heard := make(chan string, 100)
	s := hosttest.Connect(t, hosttest.Eras[1], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, nil, func(p *mcp.ProgressNotificationParams) { heard <- p.Message })
	ended := make(chan error, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "bash", Arguments: touch}
		params.SetProgressToken("1")
		_, err := s.CallTool(t.Context(), params)
		ended <- err
	}()
	for told := false; !told; {
		select {
		case message := <-heard:
			told = strings.Contains(message, "waits for the answer to a permission request") && strings.Contains(message, "/v1/asks")
		case err := <-ended:
			t.Fatalf("the call ended before the client heard of the ask: %v", err)
		case <-hosttest.Late(t):
			t.Fatal("the client does not hear that its call waits")
		}
	}
	var list []struct{ ID string }
	hosttest.Wait(t, "the ask is in the list", func() bool {
		list = nil
		hosttest.Must(t, json.Unmarshal([]byte(approver.Want(200, "", "GET", "/v1/asks", "")), &list))
		return len(list) == 1
	})
	approver.Want(200, "declined", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"declined"}`)
	hosttest.Must(t, <-ended)
}
