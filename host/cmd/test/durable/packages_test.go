package durable

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// mcpServer is an MCP server without dependencies.
const mcpServer = `
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const m = JSON.parse(line);
  if (m.id === undefined) return;
  const results = {
    initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "acme", version: "VERSION" } },
    "tools/list": { tools: [{ name: "hello", description: "Say hello.", inputSchema: { type: "object" } }] },
    "tools/call": { content: [{ type: "text", text: "hello from VERSION " + process.argv.slice(2).join(" ") }] },
  };
  console.log(JSON.stringify({ jsonrpc: "2.0", id: m.id, result: results[m.method] || {} }));
});
`

// npmRegistry serves several versions of the package @acme/server. Version 2.0.0 has a script that runs when the
// package is installed.
type npmRegistry struct {
	*httptest.Server
	versions map[string]map[string]any
	requests atomic.Int64
}

func newNPMRegistry(t *testing.T) *npmRegistry {
	t.Helper()
	r := &npmRegistry{versions: make(map[string]map[string]any)}
	files := make(map[string][]byte)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		r.requests.Add(1)
		if b, ok := files[q.URL.Path]; ok {
			_, _ = w.Write(b)
			return
		}
		if !strings.HasPrefix(q.URL.Path, "/@acme") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "@acme/server", "dist-tags": map[string]string{"latest": "1.1.0"}, "versions": r.versions})
	})
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	for version, script := range map[string]string{"1.0.0": "", "1.1.0": "", "2.0.0": "touch /tmp/evil"} {
		manifest := map[string]any{"name": "@acme/server", "version": version, "bin": map[string]string{"server": "server.js"}}
		if script != "" {
			manifest["scripts"] = map[string]string{"postinstall": script}
		}
		b, err := json.Marshal(manifest)
		hosttest.Must(t, err)
		file := hosttest.Archive(t, map[string]string{"package/package.json": string(b), "package/server.js": strings.ReplaceAll(mcpServer, "VERSION", version)})
		sum := sha512.Sum512(file)
		files["/"+version+".tgz"] = file
		manifest["dist"] = map[string]string{"tarball": r.URL + "/" + version + ".tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		manifest["hasInstallScript"] = script != ""
		r.versions[version] = manifest
	}
	return r
}

// TestPackages checks that an MCP server from npm can be installed, run without a network, and upgraded. A package with
// an install script and a changed package lock must be refused.
func TestPackages(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	r := newNPMRegistry(t)
	config := func(versions string) string {
		return "bundled = false\nfield \"acme\" {\n  mcp {\n    package = \"npm:@acme/server@" + versions + "\"\n    args = [\"--flag\"]\n  }\n}\n"
	}
	o := hosttest.NewOperator(t, config("1.0.0"))
	o.Env = append(o.Env, "npm_config_registry="+r.URL, "npm_config_cache="+filepath.Join(o.Dir, "npm"))
	o.Run(2, "toolhost config validate", "run toolhost plugin install")
	o.Run(0, "toolhost plugin install", "acme 1.0.0  installed")
	lock := filepath.Join(o.Dir, "config", "toolhost", "toolhost.lock.d", "acme.package-lock.json")
	text, err := os.ReadFile(lock)
	hosttest.Must(t, err)
	if strings.Contains(string(text), r.URL) || strings.Contains(o.Lock(), o.Dir) {
		t.Errorf("a lock file names this machine:\n%s\n%s", text, o.Lock())
	}
	without := "unshare -rn "
	if exec.Command("unshare", "-rn", "true").Run() != nil {
		without = ""
	}
	r.requests.Store(0)
	o.Run(0, without+"toolhost run 'acme:hello'", "hello from 1.0.0 --flag")
	o.Run(0, without+"toolhost plugin install --locked", "is installed")
	if n := r.requests.Load(); n != 0 {
		t.Errorf("%d requests without an installation", n)
	}
	o.Run(0, "toolhost plugin verify", "acme: version 1.0.0 is installed as locked")
	o.Run(0, `echo evil >> "$(find $XDG_DATA_HOME -name server.js)"`)
	o.Run(1, "toolhost plugin verify", "acme: its files changed")
	o.Run(0, "toolhost plugin install --reinstall acme", "installed")
	o.Run(0, "toolhost plugin verify", "acme: version 1.0.0 is installed as locked")
	o.Configure(config("^1.0.0"))
	o.Run(1, "toolhost plugin install --locked", "so the file would change")
	o.Run(0, "toolhost plugin install", "acme")
	o.Run(0, "toolhost plugin upgrade acme", "acme")
	o.Run(0, "toolhost run 'acme:hello'", "hello from 1.1.0")
	hosttest.Must(t, os.WriteFile(lock, []byte(strings.Replace(string(text), "sha512-", "sha512-A", 1)), 0o644))
	o.Run(1, "toolhost plugin install --reinstall", "is not the package lock that toolhost.lock.json names")
	o.Configure(config("2.0.0"))
	o.Run(1, "toolhost plugin install", "runs a script when it is installed")
	o.Configure(config("https://evil.example/x.tgz"))
	o.Run(2, "toolhost config validate", "The package cannot be used")
}
