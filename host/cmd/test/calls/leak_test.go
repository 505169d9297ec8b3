package calls

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// leakConfig is a configuration with secrets in all positions that accept values. Names that begin with "S_" are
// environment variables.
const leakConfig = `
variable "token" {
  sensitive = true
}
host { log_level = "debug" }
tracing {
  endpoint = "SERVER"
  headers  = { Authorization = "Bearer ${env("S_TRACE_TOKEN")}" }
}
permissions {
  deny "disks" { command = ["dd *"] }
}
plugin "bash" {
  env = { API_TOKEN = env("S_PLUGIN_TOKEN") }
}
plugin "read" {}
plugin "test" {
  path = "BIN/testplugin"
  env  = { NOTHING_TOKEN = env("S_TEST_TOKEN") }
}
plugin "args" {
  path = "/bin/false"
  args = ["--token", env("S_ARGS_TOKEN")]
}
field "web" {
  sandbox { network = true }
  function {
    url         = "SERVER/fails?key=${var.token}"
    headers     = { Authorization = "Bearer ${env("S_HEADER_TOKEN")}" }
    definitions = jsonencode([{ name = "get", description = "Gets.", parameters = { type = "object" } }])
  }
  function {
    url         = "http://user:${env("S_PASSWORD_TOKEN")}@127.0.0.1:1/x?key=${env("S_KEY_TOKEN")}"
    definitions = jsonencode([{ name = "gone", description = "Gets.", parameters = { type = "object" } }])
  }
}
field "server" {
  mcp {
    command = ["sh", "-c", "echo no; exit 1", "--token", env("S_COMMAND_TOKEN")]
    env     = { TOKEN = env("S_ENV_TOKEN") }
  }
}
field "remote" {
  mcp {
    url     = "http://user:${env("S_USER_TOKEN")}@127.0.0.1:1/?key=${env("S_QUERY_TOKEN")}"
    headers = { Authorization = "Bearer ${env("S_REMOTE_TOKEN")}" }
  }
}
hook "logs" {
  on      = ["before_call"]
  tools   = ["read"]
  command = ["/bin/sh", "-c", "exit 1", "--password", env("S_HOOK_TOKEN")]
  env     = { TOKEN = env("S_HOOKENV_TOKEN") }
}
`

// leakCalls contains request bodies of calls with secrets.
var leakCalls = []string{
	`{"command":"PGPASSWORD=S_PG true"}`,
	`{"command":"curl -s -u user:S_CURL http://127.0.0.1:1/"}`,
	`{"command":"curl -s -H 'Authorization: Bearer S_BEARER' http://127.0.0.1:1/"}`,
	`{"command":"mysql -pS_MYSQL -e 'select 1'"}`,
	`{"session":"s","command":"export GITHUB_TOKEN=S_EXPORT; alias a='PGPASSWORD=S_ALIAS psql'"}`,
	`{"session":"s","command":"echo $GITHUB_TOKEN | wc -c"}`,
	`{"command":"GITHUB_TOKEN=S_SPILL seq 1 200000"}`,
	`{"command":"GITHUB_TOKEN=S_JOB sleep 0.2 &"}`,
	`{"name":"bash","arguments":{"command":"PGPASSWORD=S_SLOW sleep 60","timeout":200}}`,
	`{"command":"PGPASSWORD=S_PARSE echo \"open"}`,
	`{"command":"TOKEN=S_DENY dd if=x"}`,
	`{"command":"git clone https://user:S_GIT@127.0.0.1:1/x.git"}`,
	`{"command":"PGPASSWORD=S_FAILS false"}`,
	`{"command":"read notes.txt"}`,
	`{"command":"web:get"}`, `{"command":"web:gone"}`, `{"command":"server:x"}`, `{"command":"remote:x"}`, `{"command":"test:echo --text x"}`,
	`{"command":"test_crash"}`,
}

// leakNames returns the names of the secrets in the configuration and in the calls.
func leakNames() []string {
	var names []string
	for _, text := range append([]string{leakConfig, "S_VARIABLE S_WRONG S_URL S_SERVE"}, leakCalls...) {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
			if strings.HasPrefix(word, "S_") && len(word) > 2 && !slices.Contains(names, word) {
				names = append(names, word)
			}
		}
	}
	return names
}

// planted returns the value of a secret. No value is a substring of another value.
func planted(name string) string { return "plant" + strings.ToLower(name[2:]) + "Zq9x7" }

// withSecrets replaces the names of secrets in a text by their values.
func withSecrets(text string) string {
	names := leakNames()
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		text = strings.ReplaceAll(text, name, planted(name))
	}
	return text
}

// leaks reports a test error for each secret in a text.
func leaks(t *testing.T, where string, text []byte) {
	t.Helper()
	for _, name := range leakNames() {
		if i := bytes.Index(text, []byte(planted(name))); i >= 0 {
			t.Errorf("%s has the secret %s: …%q…", where, name, text[max(0, i-160):min(len(text), i+60)])
		}
	}
}

// leaksIn reports secrets in the names and contents of all files below a directory. It skips the stored outputs of
// commands, because outputs can contain secrets.
func leaksIn(t *testing.T, dir string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a running host removes files
		}
		leaks(t, "the name of a file", []byte(path))
		if !e.Type().IsRegular() || filepath.Base(filepath.Dir(path)) == "output" {
			return nil
		}
		if b, err := os.ReadFile(path); err == nil {
			files++
			leaks(t, path, b)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// TestSecretsStayOut makes real calls with secrets in the configuration, in commands and in requests. The log, the
// traces, the metrics and the state directory of the host must contain no secrets.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var traces bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		traces.Write(b)
	}))
	defer server.Close()
	dir := hosttest.MCPDir(t)
	config := strings.NewReplacer("SERVER", server.URL, "BIN", hosttest.Bin).Replace(leakConfig)
	if err := os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "TOOLHOST_VAR_token="+planted("S_VARIABLE"), "TOOLHOST_TOKEN="+planted("S_SERVE"))
	for _, name := range leakNames() {
		env = append(env, name+"="+planted(name))
	}
	command := func(args ...string) *exec.Cmd {
		c := hosttest.Toolhost(t, dir, args...)
		c.Env, c.Stderr = env, nil
		return c
	}
	var log bytes.Buffer
	c := command("serve", "--listen", "127.0.0.1:0")
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	listening, logged := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(logged)
		_, _ = io.Copy(io.MultiWriter(&log, &addressFinder{found: listening}), said)
	}()
	var base string
	select {
	case base = <-listening:
	case <-logged:
		t.Fatalf("the server does not listen: %s", log.String())
	}
	client := hosttest.NewClient(t, base, planted("S_SERVE"))
	for _, body := range leakCalls {
		if status, answer := client.Do("POST", "/v1/run", withSecrets(body)); status != http.StatusOK {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	wrong := *client
	wrong.Token = planted("S_WRONG")
	for _, get := range []string{"/metrics", "/healthz", "/v1/status", "/v1/stats", "/v1/tools", "/v1/asks"} {
		_, text := client.Do("GET", get, "")
		leaks(t, get, []byte(text))
		_, text = wrong.Do("GET", get+"?token="+planted("S_URL"), "")
		leaks(t, get, []byte(text))
	}
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"log"}, {"log", "--json"}, {"stats"}, {"doctor"}, {"config", "show"}, {"config", "plan"}, {"config", "validate"}, {"plugin", "list"}, {"plugin", "info", "bash"}, {"trust"}, {"trust", "list"}, {"tools", "--json"}} {
		out, _ := command(args...).CombinedOutput() // ignore the error: some plugins do not start
		leaks(t, "toolhost "+strings.Join(args, " "), out)
	}
	review := hosttest.CommandContext(t.Context(), "--state", dir+".other", "trust")
	review.Dir, review.Env = dir, env
	out, _ := review.CombinedOutput() // ignore the error: the command fails because it cannot ask a person
	if leaks(t, "the review", out); !strings.Contains(string(out), `runs     plugin "args"`) {
		t.Errorf("the review is missing: %s", out)
	}
	if n := leaksIn(t, dir+".state"); n == 0 {
		t.Error("no file was read")
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-logged
	if err := c.Wait(); err != nil {
		t.Errorf("serve: %v", err)
	}
	leaksIn(t, dir+".state")
	leaks(t, "the log", log.Bytes())
	mu.Lock()
	defer mu.Unlock()
	leaks(t, "the traces", traces.Bytes())
	if !bytes.Contains(traces.Bytes(), []byte("call bash")) || !strings.Contains(log.String(), "plugin started") {
		t.Error("the traces or the log are missing")
	}
}

// addressFinder is a writer for the log of a server. It finds the address of the server in the log.
type addressFinder struct {
	text  []byte
	found chan string
}

func (a *addressFinder) Write(p []byte) (int, error) {
	if a.found == nil {
		return len(p), nil
	}
	a.text = append(a.text, p...)
	if _, rest, ok := strings.Cut(string(a.text), "listening on "); ok && strings.Contains(rest, "\n") {
		addr, _, _ := strings.Cut(rest, "\n")
		a.found <- addr
		a.found = nil
	}
	return len(p), nil
}
