package sandbox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestWebFetch checks that the tool web_fetch reaches only the listed hosts. It also checks the error for a host that
// cannot be reached.
func TestWebFetch(t *testing.T) {
	t.Parallel()
	if !hosttest.Supports(t, "ns") {
		need.Missing(t, "this machine has no namespaces: toolhost doctor reports why")
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		fmt.Fprint(w, "<title>T</title><h1>Fetched</h1>")
	})
	listed, other := httptest.NewServer(page), httptest.NewServer(page)
	secure := httptest.NewTLSServer(page) // the plugin does not trust the certificate of this server
	for _, s := range []*httptest.Server{listed, other, secure} {
		defer s.Close()
	}
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	dir := t.TempDir()
	config := filepath.Join(dir, "toolhost.hcl")
	hosttest.Must(t, os.Mkdir(filepath.Join(dir, "work"), 0o700))
	block := func(network string) string {
		return "plugin \"web\" {\n  sandbox { " + network + " }\n}\n"
	}
	hosts := block(fmt.Sprintf("network = [%q, %q]", address(listed), address(secure)))
	own := "plugin \"web\" {\n enabled = false\n}\n" + strings.Replace(hosts, "\"web\" {", fmt.Sprintf("\"mine\" {\n  path = %q", filepath.Join(hosttest.Bin, "renamed", "web")), 1)
	for _, tc := range []struct{ config, command, want string }{
		{hosts, "web_fetch " + listed.URL + "/p", "# Fetched"},
		{hosts, "tool:web_fetch " + listed.URL + "/p | wc -l", "1"},
		{hosts, "web_fetch " + other.URL, "The operator's list of hosts does not permit " + address(other)},
		{hosts, "web_fetch " + other.URL, `To allow this connection, the operator adds "` + address(other) + `" to the list network in the sandbox block of plugin "web" (` + config + `:1)`},
		{hosts, "web_fetch " + listed.URL + "/?to=" + other.URL, "The page moved to another host. If it is the right page, call web_fetch with " + other.URL},
		{hosts, "web_fetch " + secure.URL, "certificate signed by unknown authority"},
		{hosts, "web_fetch https://" + address(other), "does not permit " + address(other)},
		{hosts + "permissions {\n deny \"x\" { domain = \"127.0.0.1\" }\n}\n", "web_fetch " + listed.URL, "web_fetch is denied by"},
		{block(`network = ["*"]`), "web_fetch " + listed.URL, "does not permit " + address(listed)}, // "*" permits only public addresses, and this is a local address
		{block(`network = ["*"]`), "web_fetch http://169.254.169.254/latest", "does not permit 169.254.169.254"},
		{block("network = true"), "web_fetch " + listed.URL, "network = true starts none"},
		{"plugin \"web\" {}\n", "web_fetch " + listed.URL, "web_fetch is off, because its plugin web is not loaded"},
		{"", "web_fetch " + listed.URL, "web_fetch is off, because its plugin web needs the network"},
		{"", "WebFetch --url " + listed.URL, "plugin \"web\" {\n  sandbox { network = [\"*\"] }\n}"},
		{"plugin \"web\" {\n enabled = false\n}\n", "web_fetch " + listed.URL, "web_fetch: command not found"},
		{own, "my_web_fetch " + listed.URL, "# Fetched"}, // the plugin of somebody else, which the names of other agents' tools reach
		{own, "WebFetch --url " + listed.URL, "# Fetched"},
		{own, "my_web_fetch " + other.URL, `to the list network in the sandbox block of plugin "mine"`},
	} {
		hosttest.Must(t, os.WriteFile(config, []byte(tc.config), 0o600))
		c := hosttest.Command("--config", config, "--state", hosttest.KeptState(t, filepath.Join(dir, "state")), "--workspace", filepath.Join(dir, "work"), "run", tc.command)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		out, err := c.CombinedOutput()
		if reached := strings.Contains(string(out), "Fetched"); !strings.Contains(string(out), tc.want) || reached && tc.want != "# Fetched" || reached == (err != nil) && !strings.Contains(tc.command, "wc") {
			t.Errorf("%s\n%s: %v %s, want %q", tc.config, tc.command, err, out, tc.want)
		}
	}
}
