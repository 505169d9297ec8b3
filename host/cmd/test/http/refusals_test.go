package http

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tool"
)

// TestRefusals checks that each refusal of the HTTP interface has a status of its own, and a body with the kind and the
// code of the error. The calls of valid requests have the status 200, also if they fail.
func TestRefusals(t *testing.T) {
	t.Parallel()
	base, token := hosttest.Serve(t, hosttest.MCPDir(t))
	large := `{"command":"` + strings.Repeat("x", 17<<20) + `"}`
	object := `{"outcome":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, c := range []struct {
		status             int
		kind               tool.Kind
		message            string
		method, path, body string
		header             [2]string
	}{
		{400, tool.InvalidArguments, "unexpected end", "POST", "/v1/run", `{"command":`, [2]string{}},
		{400, tool.InvalidArguments, "unexpected end", "POST", "/v1/run", ``, [2]string{}},
		{400, tool.InvalidArguments, "after top-level value", "POST", "/v1/run", `{"command":"true"} {}`, [2]string{}},
		{400, tool.InvalidArguments, "Send one JSON object", "POST", "/v1/run", `["true"]`, [2]string{}},
		{400, tool.InvalidArguments, "Send one JSON object", "POST", "/v1/run", `"true"`, [2]string{}},
		{400, tool.InvalidArguments, "either a command or a name", "POST", "/v1/run", `null`, [2]string{}},
		{400, tool.InvalidArguments, "either a command or a name", "POST", "/v1/run", `{}`, [2]string{}},
		{400, tool.InvalidArguments, "either a command or a name", "POST", "/v1/run", `{"command":"true","name":"read"}`, [2]string{}},
		{400, tool.InvalidArguments, "of type string", "POST", "/v1/run", `{"command":5}`, [2]string{}},
		{400, tool.InvalidArguments, "of type bool", "POST", "/v1/run", `{"command":"true","preview":"yes"}`, [2]string{}},
		{400, tool.InvalidArguments, `The key "workspce" is unknown. Did you mean "workspace"?`, "POST", "/v1/run", `{"command":"ls","workspce":"/"}`, [2]string{}},
		{400, tool.InvalidArguments, "No request with the id", "POST", "/v1/run", `{"cancel":1}`, [2]string{}},
		{400, tool.InvalidArguments, "not UTF-8", "POST", "/v1/run", "{\"command\":\"\xff\"}", [2]string{}},
		{413, tool.InvalidArguments, "passed in a file", "POST", "/v1/run", large, [2]string{}},
		{405, tool.InvalidArguments, "use POST", "GET", "/v1/run", ``, [2]string{}},
		{405, tool.InvalidArguments, "use GET", "PUT", "/v1/status", `{}`, [2]string{}},
		{405, tool.InvalidArguments, "use GET", "POST", "/healthz", ``, [2]string{}},
		{405, tool.InvalidArguments, "use GET", "DELETE", "/readyz", ``, [2]string{}},
		{404, tool.NotFound, "use one of /v1/run", "GET", "/v2", ``, [2]string{}},
		{404, tool.NotFound, "unknown path", "POST", "/v1/run/", `{"command":"true"}`, [2]string{}},
		{401, tool.PermissionDenied, "Authorization: Bearer TOKEN", "POST", "/v1/run", `{"command":"true"}`, [2]string{"Authorization", ""}},
		{401, tool.PermissionDenied, "Authorization: Bearer TOKEN", "POST", "/v1/run", `{"command":"true"}`, [2]string{"Authorization", "Bearer x"}},
		{401, tool.PermissionDenied, "Authorization: Bearer TOKEN", "GET", "/v2", ``, [2]string{"Authorization", "Basic eDp5"}},
		{403, tool.PermissionDenied, "needs the right call", "POST", "/v1/run", `{"command":"true"}`, [2]string{"Authorization", "Bearer " + hosttest.ApproverToken}},
		{403, tool.Security, "does not have the name", "GET", "/healthz", ``, [2]string{"Host", "rebound.example"}},
		{403, tool.Security, "another origin", "POST", "/v1/run", `{"command":"true"}`, [2]string{"Origin", "http://evil.example"}},

		{400, tool.InvalidArguments, "the body is invalid", "POST", "/v1/asks/x", `{"outcome":`, [2]string{}},
		{400, tool.InvalidArguments, `unknown field "outcom"`, "POST", "/v1/asks/x", `{"outcom":"accepted"}`, [2]string{}},
		{400, tool.InvalidArguments, "more follows", "POST", "/v1/asks/x", `{"outcome":"accepted"} 5`, [2]string{}},
		{400, tool.InvalidArguments, "the answer is invalid", "POST", "/v1/asks/x", ``, [2]string{}},
		{413, tool.InvalidArguments, "the limit is 1048576 bytes", "POST", "/v1/asks/x", object, [2]string{}},
		{404, tool.NotFound, "no question", "POST", "/v1/asks/x", `{"outcome":"accepted"}`, [2]string{}},
		{400, tool.InvalidArguments, `unknown field "path"`, "POST", "/v1/branches/x/apply", `{"path":[]}`, [2]string{}},
		{400, tool.InvalidArguments, "of type []string", "POST", "/v1/branches/x/apply", `{"paths":"a"}`, [2]string{}},
		{404, tool.NotFound, "", "POST", "/v1/branches/x/apply", `{}`, [2]string{}},
		{400, tool.InvalidArguments, "use anthropic", "GET", "/v1/tools?format=yaml", ``, [2]string{}},

		{200, tool.NotFound, "does not exist", "POST", "/v1/run", `{"command":"read nothing"}`, [2]string{}},
		{200, tool.NotFound, "nonesuch", "POST", "/v1/run", `{"name":"nonesuch"}`, [2]string{}},
		{200, tool.InvalidArguments, "file_path", "POST", "/v1/run", `{"name":"read","arguments":{}}`, [2]string{}},
		{200, tool.InvalidArguments, "cannot be parsed", "POST", "/v1/run", `{"command":"echo 'open"}`, [2]string{}},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, strings.NewReader(c.body))
		hosttest.Must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		switch name, value := c.header[0], c.header[1]; {
		case name == "Host":
			req.Host = value
		case name != "":
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		hosttest.Must(t, err)
		body, err := io.ReadAll(res.Body)
		hosttest.Must(t, err)
		hosttest.Must(t, res.Body.Close())
		var got struct {
			Success *bool
			Output  *string
			Error   struct {
				Kind    tool.Kind
				Code    int
				Message string
				Source  tool.Source
			}
		}
		if err := json.Unmarshal(body, &got); err != nil || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %.60s: %d %s %.200s", c.method, c.path, c.body, res.StatusCode, res.Header.Get("Content-Type"), body)
			continue
		}
		if res.StatusCode != c.status || got.Success == nil || *got.Success || got.Output != nil || got.Error.Kind != c.kind || got.Error.Code != c.kind.Code() || !strings.Contains(got.Error.Message, c.message) {
			t.Errorf("%s %s %.60s: %d %.400s", c.method, c.path, c.body, res.StatusCode, body)
		}
		if allow := res.Header.Get("Allow"); (c.status == http.StatusMethodNotAllowed) != (allow != "") {
			t.Errorf("%s %s: Allow: %q", c.method, c.path, allow)
		}
	}
	// A batch answers each of its lines.
	code, lines := hosttest.NewClient(t, base, token).Do("POST", "/v1/batch?ordered=1", "{\"comand\":\"true\"}\n{\"command\":\"echo on\"}\n")
	if code != http.StatusOK || !strings.Contains(lines, `Line 1: the key \"comand\" is unknown`) || !strings.Contains(lines, `"reason":"request"`) || !strings.Contains(lines, `"output":"on\n"`) {
		t.Errorf("%d %s", code, lines)
	}
}
