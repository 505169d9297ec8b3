//go:build linux

package sandbox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestSingleHosts checks that commands can reach only the listed hosts.
func TestSingleHosts(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		need.Missing(t, "there is no curl; install it")
	}
	if !hosttest.Supports(t, "ns") {
		need.Missing(t, "this machine has no namespaces: toolhost doctor reports why")
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ANSWERED") })
	listed, other := httptest.NewServer(answer), httptest.NewServer(answer)
	defer listed.Close()
	defer other.Close()
	for _, user := range []string{"root", "ordinary"} {
		if user == "root" && os.Getuid() != 0 {
			continue
		}
		t.Run(user, func(t *testing.T) {
			w := newWorld(t, user)
			port := func(s *httptest.Server) string { return s.URL[strings.LastIndex(s.URL, ":")+1:] }
			outs := w.batch(t, "ns", fmt.Sprintf("sandbox {\nnetwork = [\"127.0.0.1:%s\", \"nowhere.invalid\"]\n}", port(listed)),
				// The option --noproxy '' is needed, because the environment excludes localhost from the proxy.
				`curl -sS --noproxy '' `+listed.URL,
				`curl -sS --noproxy '' -p `+listed.URL,
				`curl -sS --noproxy '' -w ' %{http_code}' `+other.URL+`; exit 0`,
				`curl -sS --noproxy '' -p `+other.URL,
				`curl -sS http://other.example/`,
				`curl -sS https://other.example:8443/`,
				`curl -sS --noproxy '*' `+listed.URL,
				`testescape tcp $TCP; testescape udp $UDP; testescape mptcp $TCP; testescape raw 0; testescape abstract 0 $ABSTRACT; testescape path 0 $SOCKET; exit 0`,
				`curl -sS http://nowhere.invalid/`,
				`echo this one asked for no host`,
			)
			for i, want := range []string{
				"ANSWERED", "ANSWERED",
				"403\n[The sandbox refused a connection to 127.0.0.1:" + port(other) + ": the host is not listed. To allow this connection, the operator adds \"127.0.0.1:" + port(other) + "\" to the list network in the sandbox block of plugin \"bash\" (",
				"refused a connection to 127.0.0.1:" + port(other),
				"toolhost: the sandbox does not allow a connection to other.example:80: the host is not listed. To allow this connection",
				`the operator adds "other.example:8443" to the list`,
				"Failed to connect", "failed", "cannot be looked up", "asked for no host",
			} {
				if !strings.Contains(outs[i], want) {
					t.Errorf("%d: %s, want %s", i, outs[i], want)
				}
			}
			if strings.Contains(outs[7], "ESCAPED") || strings.Contains(outs[6], "ANSWERED") {
				t.Errorf("a connection that bypasses the proxy succeeded: %s %s", outs[6], outs[7])
			}
			if strings.Contains(outs[9], "refused") || strings.Contains(outs[0], "refused") {
				t.Errorf("a call reports a connection that was refused to another call: %s", outs[9])
			}
			log := w.command(user, filepath.Join(hosttest.Bin, "toolhost"), "--config", filepath.Join(w.dir, "toolhost.hcl"), "--workspace", w.work, "log", "--json", "--decision", "deny")
			log.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "XDG_STATE_HOME=" + filepath.Join(w.dir, "state")}
			text, err := log.CombinedOutput()
			if err != nil || strings.Count(string(text), `"(network)"`) != 3 || !strings.Contains(string(text), "other.example:8443") {
				t.Errorf("the audit log has %v %s", err, text)
			}

			// Without namespaces, commands must have no network access.
			for _, out := range w.batch(t, "landlock", "sandbox {\nenforce = \"auto\"\nnetwork = [\"127.0.0.1:"+port(listed)+"\"]\n}", `curl -sS --noproxy '' `+listed.URL) {
				if strings.Contains(out, "ANSWERED") || !strings.Contains(out, "curl") {
					t.Errorf("landlock: %s", out)
				}
			}
			c := w.command(user, filepath.Join(hosttest.Bin, "toolhost"), "--config", filepath.Join(w.dir, "toolhost.hcl"), "--workspace", w.work, "doctor")
			c.Env = log.Env
			if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "connections to single hosts are not possible") {
				t.Errorf("%v %s", err, out)
			}
		})
	}
}
