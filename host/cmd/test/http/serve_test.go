package http

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestServe(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	base, token := hosttest.Serve(t, dir)
	c := hosttest.NewClient(t, base, token)

	c.Want(200, "ok", "GET", "/healthz", "")
	c.Want(200, `"output":"one\ntwo\n"`, "POST", "/v1/run", `{"id":"a","command":"read notes.txt"}`)
	c.Want(200, `{"id":"b","success":true,"output":"hihi"`, "POST", "/v1/run", `{"id":"b","name":"test_echo","arguments":{"text":"hi","times":2}}`)
	c.Want(200, `"success":false`, "POST", "/v1/run", `{"command":"read nothing"}`)
	c.Want(400, `"kind":"invalid_arguments"`, "POST", "/v1/run", `{"command":`)
	c.Want(400, `The key \"workspce\" is unknown. Did you mean \"workspace\"?`, "POST", "/v1/run", `{"command":"ls","workspce":"/"}`)
	c.Want(200, `{"id":"t","success":true,"output":"one\ntwo\n"`, "POST", "/v1/run", `{"type":"tool_use","id":"t","name":"read","input":{"file_path":"notes.txt"}}`)
	c.Want(200, `"output":"one\ntwo\n"`, "POST", "/v1/run", `{"tool_calls":[{"id":"c","type":"function","function":{"name":"read","arguments":"{\"file_path\":\"notes.txt\"}"}}]}`)
	c.Want(200, `"function_name":"test_echo"`, "GET", "/v1/tools", "")
	c.Want(200, `{"type":"function","function":{"name":"read"`, "GET", "/v1/tools?format=openai", "")
	c.Want(200, `"parametersJsonSchema"`, "GET", "/v1/tools?format=gemini&single=1", "")
	c.Want(400, "use anthropic", "GET", "/v1/tools?format=yaml", "")
	c.Want(200, `"workspace":"`+dir, "GET", "/v1/status", "")
	c.Want(404, "use one of /v1/run", "GET", "/v2", "")
	c.Want(405, "use POST", "GET", "/v1/run", "")
	// A named session must be separate from the default session.
	c.Want(200, dir+"/sub", "POST", "/v1/run", `{"session":"s","command":"mkdir sub && cd sub && pwd"}`)
	c.Want(200, dir+`/sub\n"`, "POST", "/v1/run", `{"session":"s","command":"pwd"}`)
	c.Want(200, dir+`\n"`, "POST", "/v1/run", `{"command":"pwd"}`)

	// Requests with a wrong host, origin or token must be rejected.
	c.Want(403, "does not have the name", "GET", "/healthz", "", "Host", "rebound.example")
	c.Want(403, "", "POST", "/v1/run", `{"command":"touch owned"}`, "Origin", "http://evil.example")
	for _, wrong := range []string{"", "x", token + "x"} {
		hosttest.NewClient(t, base, wrong).Want(401, "Authorization: Bearer TOKEN", "POST", "/v1/run", `{"command":"touch owned"}`)
		hosttest.NewClient(t, base, wrong).Want(401, "", "POST", "/mcp", `{}`)
	}
	if _, err := os.Stat(filepath.Join(dir, "owned")); err == nil {
		t.Error("a refused request was run")
	}
	big := `{"command":"true","x":"` + strings.Repeat("x", 17<<20) + `"}`
	c.Want(413, "passed in a file", "POST", "/v1/run", big)
	c.Want(413, "", "POST", "/mcp", big, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
}

// TestServeBatch checks that a result is sent before all requests have arrived.
func TestServeBatch(t *testing.T) {
	t.Parallel()
	base, token := hosttest.Serve(t, hosttest.MCPDir(t))
	requests, write := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/batch", requests)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	answers := make(chan *http.Response, 1)
	go func() {
		res, err := http.DefaultClient.Do(req) //nolint:bodyclose // below
		if err != nil {
			t.Error(err)
		}
		answers <- res
	}()
	var lines *bufio.Reader
	for i, command := range []string{"read notes.txt --limit 1", "read none", "echo on"} {
		if _, err := fmt.Fprintf(write, `{"id":%d,"command":%q}`+"\n", i, command); err != nil {
			t.Fatal(err)
		}
		if lines == nil {
			res := <-answers
			if res == nil {
				t.FailNow()
			}
			defer res.Body.Close()
			lines = bufio.NewReader(res.Body)
		}
		line, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, fmt.Sprintf(`{"id":%d,`, i)) {
			t.Fatalf("%s %v", line, err)
		}
	}
	_ = write.Close()
	if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
		t.Errorf("%s %v", rest, err)
	}
}

// TestServeAsks checks that an open ask can be listed and answered over HTTP.
func TestServeAsks(t *testing.T) {
	t.Parallel()
	base, token := hosttest.Serve(t, hosttest.MCPDir(t))
	c := hosttest.NewClient(t, base, token)
	c.Want(200, "[]", "GET", "/v1/asks", "")
	for _, outcome := range []string{"accepted", "declined"} {
		result := make(chan string, 1)
		go func() {
			_, body := c.Do("POST", "/v1/run", `{"command":"field:test ask"}`)
			result <- body
		}()
		var list []struct {
			ID         string
			Permission struct{ Title string }
		}
		hosttest.Wait(t, "the ask is in the list", func() bool {
			_, body := c.Do("GET", "/v1/asks", "")
			return json.Unmarshal([]byte(body), &list) == nil && len(list) == 1
		})
		if list[0].Permission.Title != "May I?" {
			t.Errorf("%+v", list)
		}
		c.Want(400, "the answer is invalid", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"perhaps"}`)
		c.Want(404, "no question with the id", "POST", "/v1/asks/other", `{"outcome":"accepted"}`)
		c.Want(403, "another principal must answer", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"accepted"}`)
		hosttest.NewClient(t, base, hosttest.ApproverToken).Want(200, outcome, "POST", "/v1/asks/"+list[0].ID, `{"outcome":"`+outcome+`"}`)
		if body := <-result; strings.Contains(body, "thank you") != (outcome == "accepted") {
			t.Errorf("%s: %s", outcome, body)
		}
		c.Want(404, "no question with the id", "POST", "/v1/asks/"+list[0].ID, `{"outcome":"accepted"}`)
	}
}

// TestCommandsAskOverHTTP checks that a rule (requirement E3) causes an ask both in a direct call and in a call by a
// command, alone and in a batch.
func TestCommandsAskOverHTTP(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "asked.txt"), []byte("found\n"), 0o600))
	const rule = "permissions {\n  ask \"asked\" { path = \"asked.txt\" }\n}\n"
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(rule), 0o600))
	base, token := hosttest.Serve(t, dir)
	c, approver := hosttest.NewClient(t, base, token), hosttest.NewClient(t, base, hosttest.ApproverToken)
	for _, command := range []string{"read asked.txt", "true; tool:read asked.txt"} {
		for _, path := range []string{"/v1/run", "/v1/batch"} {
			for outcome, want := range map[string]string{"accepted": "found", "declined": "declined"} {
				result := make(chan string, 1)
				go func() {
					_, body := c.Do("POST", path, fmt.Sprintf(`{"id":1,"command":%q}`+"\n", command))
					result <- body
				}()
				var list []struct{ ID string }
				hosttest.Wait(t, "the ask is in the list", func() bool {
					select {
					case body := <-result:
						t.Fatalf("%s of %s: nobody was asked: %s", path, command, body)
					default:
					}
					_, body := approver.Do("GET", "/v1/asks", "")
					return json.Unmarshal([]byte(body), &list) == nil && len(list) == 1
				})
				approver.Want(200, outcome, "POST", "/v1/asks/"+list[0].ID, `{"outcome":"`+outcome+`"}`)
				if body := <-result; !strings.Contains(body, want) {
					t.Errorf("%s of %s, %s: %s", path, command, outcome, body)
				}
			}
		}
	}
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	dir, keys := hosttest.MCPDir(t), t.TempDir()
	hosttest.Must(t, os.WriteFile(filepath.Join(keys, "empty"), nil, 0o600))
	hosttest.Must(t, os.WriteFile(filepath.Join(keys, "open"), []byte("secret"), 0o600))
	hosttest.Must(t, os.Chmod(filepath.Join(keys, "open"), 0o644))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "inside"), []byte("secret"), 0o600))
	for _, tc := range []struct{ args, says string }{
		{"--listen 0.0.0.0:0 --no-auth", "needs a loopback address"},
		{"--listen 0.0.0.0:0", "set --tls-cert and --tls-key"},
		{"--listen 127.0.0.1:0 --tls-cert x", "needs both"},
		{"--listen nowhere", "--listen"},
		{"--token-file none", "--token-file: " + dir + "/none is in " + dir + ", where tools could read or replace it"},
		{"--token-file inside", "--token-file: " + dir + "/inside is in " + dir},
		{"--approver-token-file inside", "--approver-token-file: " + dir + "/inside is in " + dir},
		{"--tls-cert x --tls-key inside", "--tls-key: " + dir + "/inside is in " + dir},
		{"--fleet --fleet-token-file inside", "--fleet-token-file: " + dir + "/inside is in " + dir},
		{"--token-file " + keys + "/none --allow-workspace " + keys, "--token-file: " + keys + "/none is in " + keys},
		{"--token-file /nowhere/none", "--token-file"},
		{"--approver-token-file none", "--approver-token-file"},
		{"--token-file " + keys + "/empty", "is empty"},
		{"--token-file " + keys + "/open", "other users can access the token in " + keys + "/open (mode 0644)"},
		{"--approver-token-file " + keys + "/open", "--approver-token-file: other users can access the token"},
	} {
		c := hosttest.Toolhost(t, dir, append([]string{"serve", "--listen", "127.0.0.1:0"}, strings.Fields(tc.args)...)...)
		c.Stderr = nil
		b, err := c.CombinedOutput()
		if err == nil || c.ProcessState.ExitCode() != 2 || !strings.Contains(string(b), tc.says) {
			t.Errorf("%s: %v %s", tc.args, err, b)
		}
	}
	base, _ := hosttest.Serve(t, dir, "--no-auth")
	hosttest.NewClient(t, base, "").Want(200, `"output":"x\n"`, "POST", "/v1/run", `{"command":"echo x"}`)
}
