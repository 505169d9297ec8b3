package calls

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

// TestOpenBatch checks that a batch ends when the token of its client is revoked.
func TestOpenBatch(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	alice := p.As("alice")
	body, lines := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Base+"/v1/batch", body)
	hosttest.Must(t, err)
	req.Header.Set("Authorization", "Bearer "+alice.Token)
	go func() { _, _ = io.WriteString(lines, `{"id":1,"command":"echo first"}`+"\n") }()
	res, err := http.DefaultClient.Do(req)
	hosttest.Must(t, err)
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "first") {
		t.Fatalf("%q, %v", line, err)
	}
	hosttest.Must(t, hosttest.Toolhost(t, p.Dir, "token", "revoke", "alice").Run())
	go func() {
		_, _ = io.WriteString(lines, `{"id":2,"command":"touch owned"}`+"\n")
		_ = lines.Close()
	}()
	rest, err := io.ReadAll(in)
	if err != nil || strings.Count(string(rest), "\n") != 1 || !strings.Contains(string(rest), "the token is missing, wrong or expired") {
		t.Errorf("%q, %v", rest, err)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "owned")); err == nil {
		t.Error("a call of a revoked token ran")
	}
}

// TestLongTexts checks that long names in requests are not stored in the database. All principals share this database.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, "")
	alice, long := p.As("alice"), strings.Repeat("x/", 2<<20)
	for _, request := range []map[string]any{
		{"command": "touch owned", "session": long}, {"command": "touch owned", "workspace": "/" + long}, {"name": long, "arguments": map[string]any{}},
		{"command": "touch owned", "session": "a\x00b"}, {"command": "touch owned", "session": "a\x1b[31m"},
	} {
		b, err := json.Marshal(request)
		hosttest.Must(t, err)
		if answer := alice.Want(200, "invalid_arguments", "POST", "/v1/run", string(b)); len(answer) > 2000 {
			t.Errorf("an answer has %d bytes", len(answer))
		}
	}
	hosttest.Wait(t, "the calls are in the log", func() bool {
		out, err := hosttest.Toolhost(t, p.Dir, "log", "--json").Output()
		hosttest.Must(t, err)
		if len(out) > 40_000 {
			t.Fatalf("the log has %d bytes", len(out))
		}
		return strings.Count(string(out), `"outcome":"invalid_arguments"`) == 5
	})
	if _, err := os.Stat(filepath.Join(p.Dir, "owned")); err == nil {
		t.Error("a refused request ran")
	}
}

// TestLinkedWorkspace checks that a principal cannot redirect another principal's workspace to a different directory by
// a link.
func TestLinkedWorkspace(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.MkdirAll(filepath.Join(dir, "outer/inner"), 0o700))
	hosttest.Must(t, os.Mkdir(filepath.Join(dir, "victim"), 0o700))
	p := hosttest.NewPrincipals(t, fmt.Sprintf("principal \"outer\" { workspaces = [%q] }\nprincipal \"inner\" { workspaces = [%q] }\n", dir+"/outer", dir+"/outer/inner"))
	outer, inner := p.As("outer"), p.As("inner")
	inner.Want(200, dir+`/outer/inner\n`, "POST", "/v1/run", `{"command":"pwd"}`)
	outer.Want(200, `"success":true`, "POST", "/v1/run", fmt.Sprintf(`{"command":"rm -r inner && ln -s %s/victim inner"}`, dir))
	inner.Want(403, "not allowed to work in", "POST", "/v1/run", `{"command":"pwd"}`)
	inner.Want(403, "not allowed to work in", "POST", "/v1/run", fmt.Sprintf(`{"command":"pwd","workspace":%q}`, dir+"/victim"))
	outer.Want(200, `"success":true`, "POST", "/v1/run", `{"command":"rm inner && mkdir inner"}`)
	inner.Want(200, dir+`/outer/inner\n`, "POST", "/v1/run", `{"command":"pwd"}`)
}
