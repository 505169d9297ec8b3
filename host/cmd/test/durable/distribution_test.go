package durable

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestGuideOfDistribution checks the commands of the guide: an author makes, signs and publishes a plugin, and the host
// of another machine runs it. After the installation, neither run nor batch nor mcp may need a network.
func TestGuideOfDistribution(t *testing.T) {
	t.Parallel()
	const doc = "../../../../docs/distribution.md"
	at := hosttest.NewRegistry(t)
	lines := hosttest.ShellBlocks(t, doc)
	if len(lines) != 6 {
		t.Fatalf("the guide has %d commands: %q", len(lines), lines)
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(strings.ReplaceAll(lines[i], "registry.example.org", at), "linux/amd64", runtime.GOOS+"/"+runtime.GOARCH)
	}
	author := hosttest.NewGuide(t)
	author.Env = append(author.Env, "XDG_DATA_HOME="+filepath.Join(author.Dir, "..", "home", "data"))
	if out := author.Run(".", lines[:4]); !strings.Contains(out, "Published "+at+"/acme/weather:0.1.0") {
		t.Fatal(out)
	}
	b, err := os.ReadFile(doc)
	hosttest.Must(t, err)
	block := regexp.MustCompile("(?ms)^```hcl\n(plugin \"weather\".*?)^```$").FindSubmatch(b)
	if block == nil {
		t.Fatal("the guide has no configuration")
	}
	o := hosttest.NewOperator(t, strings.ReplaceAll(string(block[1]), "registry.example.org", at))
	key, err := os.ReadFile(filepath.Join(author.Dir, "acme.pub"))
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(o.Dir, "config", "toolhost", "acme.pub"), key, 0o644))
	o.Run(0, lines[4], "weather 0.1.0  installed", "signed by acme (SHA256:", "tools: weather")
	o.Run(0, lines[5], "Hello, World")
	o.Run(0, "toolhost plugin verify --remote", "version 0.1.0 is installed as locked")
	withoutNetwork(t, o)
	// Another machine has the same lock file, but the plugin is not installed. The error must name the command that
	// installs it.
	fresh := hosttest.NewOperator(t, strings.ReplaceAll(string(block[1]), "registry.example.org", at))
	hosttest.Must(t, os.WriteFile(filepath.Join(fresh.Dir, "config", "toolhost", "acme.pub"), key, 0o644))
	hosttest.Must(t, os.WriteFile(filepath.Join(fresh.Dir, "config", "toolhost", "toolhost.lock.json"), []byte(o.Lock()), 0o644))
	fresh.Run(1, "toolhost run 'weather World'", "is not installed here; run toolhost plugin install")
	fresh.Run(0, "toolhost plugin install --locked")
	fresh.Run(0, lines[5], "Hello, World")
	if fresh.Lock() != o.Lock() {
		t.Errorf("the lock file changed:\n%s", fresh.Lock())
	}
}

// withoutNetwork checks that hosts work in an empty network namespace.
func withoutNetwork(t *testing.T, o *hosttest.Operator) {
	t.Helper()
	if exec.Command("unshare", "-rn", "true").Run() != nil {
		t.Log("no network namespaces: starts without a network were not checked")
		return
	}
	o.Run(1, "unshare -rn toolhost plugin install --reinstall", "cannot be reached") // proves that there is no network
	o.Run(0, "toolhost plugin install")
	o.Run(0, "unshare -rn toolhost plugin install", "is installed") // nothing to do
	o.Run(0, "unshare -rn toolhost run 'weather World'", "Hello, World")
	o.Run(0, `printf '{"id":1,"command":"weather World"}\n' | unshare -rn toolhost batch`, "Hello, World")
	server := o.Command("exec unshare -rn toolhost mcp")
	stdin, err := server.StdinPipe()
	hosttest.Must(t, err)
	stdout, err := server.StdoutPipe()
	hosttest.Must(t, err)
	hosttest.Must(t, server.Start())
	lines := bufio.NewScanner(stdout)
	for _, m := range []string{`"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`, `"id":2,"method":"tools/call","params":{"name":"weather","arguments":{"name":"World"}}`} {
		_, err := io.WriteString(stdin, `{"jsonrpc":"2.0",`+m+"}\n")
		hosttest.Must(t, err)
		if !lines.Scan() {
			t.Fatal("the MCP server does not answer", lines.Err())
		}
	}
	if !strings.Contains(lines.Text(), "Hello, World") {
		t.Error(lines.Text())
	}
	hosttest.Must(t, stdin.Close())
	hosttest.Must(t, server.Wait())
	o.Run(0, "unshare -rn toolhost config reload")
}

// TestUpgradeOfRunningHost checks upgrades of a plugin while a host serves it. A version that the host refuses must
// change nothing. The first version is installed from a web server, and the others from a directory.
func TestUpgradeOfRunningHost(t *testing.T) {
	t.Parallel()
	mirror := filepath.Join(t.TempDir(), "mirror")
	const src = "registry.invalid/acme/weather" // this registry does not exist, so every version must come from the mirror
	web := httptest.NewServer(http.FileServer(http.Dir(mirror)))
	defer web.Close()
	config := func(to string) string {
		return "bundled = false\nplugin \"weather\" { source = \"" + src + "\" }\nmirror \"registry.invalid/*\" { to = \"" + to + "\" }\n"
	}
	o := hosttest.NewOperator(t, config(web.URL))
	o.Run(0, "toolhost plugin key acme")
	publish := func(version, more string) {
		t.Helper()
		path := filepath.Join(o.Dir, "build", version, "weather")
		hosttest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		b, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
		hosttest.Must(t, err)
		hosttest.Must(t, os.WriteFile(path, fmt.Appendf(b, "\n!variant name=weather version=%s %s\n", version, more), 0o755))
		o.Run(0, fmt.Sprintf("toolhost plugin publish --key acme.key --to file://%s --platform %s/%s=%s %s:%s", mirror, runtime.GOOS, runtime.GOARCH, path, src, version), "signed by")
	}
	publish("1.0.0", "")
	o.Run(0, "toolhost plugin install", "weather 1.0.0  installed", "which is new and now in the lock file")
	o.Run(0, "toolhost run 'echo hello'", "hello")
	o.Configure(config("file://" + mirror))
	host := o.Command("exec toolhost mcp")
	stdin, err := host.StdinPipe()
	hosttest.Must(t, err)
	hosttest.Must(t, host.Start())
	defer func() { _ = stdin.Close(); _ = host.Wait() }()
	hosttest.Wait(t, "a reload reaches the host", func() bool {
		out, _ := o.Command("toolhost plugin reload").CombinedOutput() // ignore the error: the host has not started yet
		return strings.Contains(string(out), "host ")
	})
	publish("1.1.0", "add=extra")
	o.Run(2, "toolhost plugin outdated", "1.1.0")
	o.Run(0, "toolhost plugin upgrade weather", "weather 1.0.0 → 1.1.0")
	o.Run(0, "toolhost plugin reload", "nothing changed") // the host has applied it already
	served := o.Served()
	before := o.Lock()
	publish("1.2.0", "add=extra unhealthy=yes")
	o.Run(1, "toolhost plugin upgrade weather", "a host refuses version 1.2.0, so version 1.1.0 stays", "unhealthy")
	publish("1.3.0", "add=extra needs=network")
	o.Run(1, "toolhost plugin upgrade weather", "--accept-changes weather", "new need: to reach the network")
	if o.Lock() != before {
		t.Errorf("the lock file changed:\n%s", o.Lock())
	}
	if now := o.Served(); now != served {
		t.Errorf("the host serves %s, not %s", now, served)
	}
	o.Run(0, "toolhost plugin rollback weather", "weather 1.1.0 → 1.0.0")
	if now := o.Served(); now == served {
		t.Error("the host still serves the version before the rollback")
	}
	o.Run(0, "toolhost plugin rollback weather", "weather 1.0.0 → 1.1.0")
	o.Run(0, fmt.Sprintf("toolhost plugin yank --key acme.key --to file://%s --reason 'use 1.1.1' %s:1.1.0", mirror, src))
	o.Run(2, "toolhost plugin outdated", `yanked: "use 1.1.1"`)
	o.Run(1, "toolhost plugin verify --remote", "yanked")
	o.Run(0, "toolhost plugin gc", "kept")
	o.Run(0, "toolhost run 'extra'")
}
