package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// newRegistry returns the address of an empty registry: Debian's docker-registry if it is installed, and otherwise a
// registry in this process. These registries differ in how they list signatures.
func newRegistry(t *testing.T) string {
	t.Helper()
	program := filepath.Join(sourceEnv()["DEBIAN"], "usr/bin/docker-registry")
	if _, err := os.Stat(program); err != nil || sourceEnv()["DEBIAN"] == "" {
		server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
		t.Cleanup(server.Close)
		return "localhost:" + server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	must(t, os.WriteFile(config, []byte("version: 0.1\nlog: {level: info}\nstorage:\n  filesystem: {rootdirectory: "+dir+"/data}\nhttp: {addr: '127.0.0.1:0'}\n"), 0o600))
	c := exec.CommandContext(t.Context(), program, "serve", config)
	out, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	c.Stdout, c.Stderr = out, out
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait(); _ = out.Close() })
	listening := regexp.MustCompile(`listening on 127\.0\.0\.1:(\d+)`)
	for range waits {
		text, err := os.ReadFile(out.Name())
		must(t, err)
		if m := listening.FindSubmatch(text); m != nil {
			return "localhost:" + string(m[1])
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("docker-registry does not listen")
	return ""
}

// operator is a simulated machine with a user who has a configuration.
type operator struct {
	t   *testing.T
	dir string
	env []string
}

func newOperator(t *testing.T, config string) *operator {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	o := &operator{t, dir, append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/config", "XDG_STATE_HOME="+dir+"/state", "XDG_DATA_HOME="+dir+"/data", "DOCKER_CONFIG="+dir, "XDG_RUNTIME_DIR=", "PATH="+bin+":"+os.Getenv("PATH"))}
	must(t, os.MkdirAll(filepath.Join(dir, "config", "toolhost"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
	o.configure(config)
	return o
}

func (o *operator) configure(text string) {
	must(o.t, os.WriteFile(filepath.Join(o.dir, "config", "toolhost", "toolhost.hcl"), []byte(text), 0o644))
}

func (o *operator) lock() string {
	b, err := os.ReadFile(filepath.Join(o.dir, "config", "toolhost", "toolhost.lock.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		o.t.Fatal(err)
	}
	return string(b)
}

func (o *operator) command(line string) *exec.Cmd {
	c := exec.CommandContext(o.t.Context(), "sh", "-c", line)
	c.Dir, c.Env = filepath.Join(o.dir, "work"), o.env
	return c
}

// run runs a command and checks its exit status and its output.
func (o *operator) run(status int, line string, want ...string) string {
	o.t.Helper()
	c := o.command(line)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != status {
		o.t.Fatalf("%s: %v, wanted exit status %d\n%s", line, err, status, out)
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			o.t.Fatalf("%s: no %q in\n%s", line, w, out)
		}
	}
	return string(out)
}

// TestGuideOfDistribution checks the commands of the guide: an author makes, signs and publishes a plugin, and the host
// of another machine runs it. After the installation, neither run nor batch nor mcp may need a network.
func TestGuideOfDistribution(t *testing.T) {
	t.Parallel()
	const doc = "../../../docs/distribution.md"
	at := newRegistry(t)
	lines := shellBlocks(t, doc)
	if len(lines) != 6 {
		t.Fatalf("the guide has %d commands: %q", len(lines), lines)
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(strings.ReplaceAll(lines[i], "registry.example.org", at), "linux/amd64", runtime.GOOS+"/"+runtime.GOARCH)
	}
	author := newGuide(t)
	author.env = append(author.env, "XDG_DATA_HOME="+filepath.Join(author.dir, "..", "home", "data"))
	if out := author.run(".", lines[:4]); !strings.Contains(out, "Published "+at+"/acme/weather:0.1.0") {
		t.Fatal(out)
	}
	b, err := os.ReadFile(doc)
	must(t, err)
	block := regexp.MustCompile("(?ms)^```hcl\n(plugin \"weather\".*?)^```$").FindSubmatch(b)
	if block == nil {
		t.Fatal("the guide has no configuration")
	}
	o := newOperator(t, strings.ReplaceAll(string(block[1]), "registry.example.org", at))
	key, err := os.ReadFile(filepath.Join(author.dir, "acme.pub"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(o.dir, "config", "toolhost", "acme.pub"), key, 0o644))
	o.run(0, lines[4], "weather 0.1.0  installed", "signed by acme (SHA256:", "tools: weather")
	o.run(0, lines[5], "Hello, World")
	o.run(0, "toolhost plugin verify --remote", "version 0.1.0 is installed as locked")
	withoutNetwork(t, o)
	// Another machine has the same lock file, but the plugin is not installed. The error must name the command that
	// installs it.
	fresh := newOperator(t, strings.ReplaceAll(string(block[1]), "registry.example.org", at))
	must(t, os.WriteFile(filepath.Join(fresh.dir, "config", "toolhost", "acme.pub"), key, 0o644))
	must(t, os.WriteFile(filepath.Join(fresh.dir, "config", "toolhost", "toolhost.lock.json"), []byte(o.lock()), 0o644))
	fresh.run(1, "toolhost run 'weather World'", "is not installed here; run toolhost plugin install")
	fresh.run(0, "toolhost plugin install --locked")
	fresh.run(0, lines[5], "Hello, World")
	if fresh.lock() != o.lock() {
		t.Errorf("the lock file changed:\n%s", fresh.lock())
	}
}

// withoutNetwork checks that hosts work in an empty network namespace.
func withoutNetwork(t *testing.T, o *operator) {
	t.Helper()
	if exec.Command("unshare", "-rn", "true").Run() != nil {
		t.Log("no network namespaces: starts without a network were not checked")
		return
	}
	o.run(1, "unshare -rn toolhost plugin install --reinstall", "cannot be reached") // proves that there is no network
	o.run(0, "toolhost plugin install")
	o.run(0, "unshare -rn toolhost plugin install", "is installed") // nothing to do
	o.run(0, "unshare -rn toolhost run 'weather World'", "Hello, World")
	o.run(0, `printf '{"id":1,"command":"weather World"}\n' | unshare -rn toolhost batch`, "Hello, World")
	server := o.command("exec unshare -rn toolhost mcp")
	stdin, err := server.StdinPipe()
	must(t, err)
	stdout, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	lines := bufio.NewScanner(stdout)
	for _, m := range []string{`"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`, `"id":2,"method":"tools/call","params":{"name":"weather","arguments":{"name":"World"}}`} {
		_, err := io.WriteString(stdin, `{"jsonrpc":"2.0",`+m+"}\n")
		must(t, err)
		if !lines.Scan() {
			t.Fatal("the MCP server does not answer", lines.Err())
		}
	}
	if !strings.Contains(lines.Text(), "Hello, World") {
		t.Error(lines.Text())
	}
	must(t, stdin.Close())
	must(t, server.Wait())
	o.run(0, "unshare -rn toolhost config reload")
}

// served returns the directory of the plugin. It checks that the running host uses the same directory as a new host
// would.
func (o *operator) served() string {
	o.t.Helper()
	dirs := regexp.MustCompile(`h1-[0-9a-f]{64}`).FindAllString(o.run(0, "toolhost status", "running (pid"), -1)
	if len(dirs) != 2 || dirs[0] != dirs[1] {
		o.t.Fatalf("the running host and the lock file differ: %q", dirs)
	}
	return dirs[0]
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
	o := newOperator(t, config(web.URL))
	o.run(0, "toolhost plugin key acme")
	publish := func(version, more string) {
		t.Helper()
		path := filepath.Join(o.dir, "build", version, "weather")
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		b, err := os.ReadFile(filepath.Join(bin, "testplugin"))
		must(t, err)
		must(t, os.WriteFile(path, fmt.Appendf(b, "\n!variant name=weather version=%s %s\n", version, more), 0o755))
		o.run(0, fmt.Sprintf("toolhost plugin publish --key acme.key --to file://%s --platform %s/%s=%s %s:%s", mirror, runtime.GOOS, runtime.GOARCH, path, src, version), "signed by")
	}
	publish("1.0.0", "")
	o.run(0, "toolhost plugin install", "weather 1.0.0  installed", "which is new and now in the lock file")
	o.run(0, "toolhost run 'echo hello'", "hello")
	o.configure(config("file://" + mirror))
	host := o.command("exec toolhost mcp")
	stdin, err := host.StdinPipe()
	must(t, err)
	must(t, host.Start())
	defer func() { _ = stdin.Close(); _ = host.Wait() }()
	for range waits {
		if out, _ := o.command("toolhost plugin reload").CombinedOutput(); strings.Contains(string(out), "host ") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	publish("1.1.0", "add=extra")
	o.run(2, "toolhost plugin outdated", "1.1.0")
	o.run(0, "toolhost plugin upgrade weather", "weather 1.0.0 → 1.1.0")
	o.run(0, "toolhost plugin reload", "nothing changed") // the host has applied it already
	served := o.served()
	before := o.lock()
	publish("1.2.0", "add=extra unhealthy=yes")
	o.run(1, "toolhost plugin upgrade weather", "a host refuses version 1.2.0, so version 1.1.0 stays", "unhealthy")
	publish("1.3.0", "add=extra needs=network")
	o.run(1, "toolhost plugin upgrade weather", "--accept-changes weather", "new need: to reach the network")
	if o.lock() != before {
		t.Errorf("the lock file changed:\n%s", o.lock())
	}
	if now := o.served(); now != served {
		t.Errorf("the host serves %s, not %s", now, served)
	}
	o.run(0, "toolhost plugin rollback weather", "weather 1.1.0 → 1.0.0")
	if now := o.served(); now == served {
		t.Error("the host still serves the version before the rollback")
	}
	o.run(0, "toolhost plugin rollback weather", "weather 1.0.0 → 1.1.0")
	o.run(0, fmt.Sprintf("toolhost plugin yank --key acme.key --to file://%s --reason 'use 1.1.1' %s:1.1.0", mirror, src))
	o.run(2, "toolhost plugin outdated", `yanked: "use 1.1.1"`)
	o.run(1, "toolhost plugin verify --remote", "yanked")
	o.run(0, "toolhost plugin gc", "kept")
	o.run(0, "toolhost run 'extra'")
}
