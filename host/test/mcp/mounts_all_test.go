//go:build oracle

package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/test/hosttest"
)

// publicServer is one entry of bench/mounts/servers.json. The credentials of the entry are invented, because servers
// list their tools without using credentials.
type publicServer struct {
	Package, Version string
	Args             []string
	Env              map[string]string
}

// TestMountsOfPublicServers installs public MCP servers, mounts each of them, and compares the tools of the mount with
// the tools that the server itself lists. No tool may be missing. The test runs only if TOOLHOST_MOUNTS names a
// directory for the packages, because they need gigabytes (make soak-mounts).
func TestMountsOfPublicServers(t *testing.T) {
	packages := os.Getenv("TOOLHOST_MOUNTS")
	if packages == "" {
		t.Skip("TOOLHOST_MOUNTS is not set; run make soak-mounts")
	}
	b, err := os.ReadFile("../../../bench/mounts/servers.json")
	hosttest.Must(t, err)
	var servers []publicServer
	hosttest.Must(t, json.Unmarshal(b, &servers))
	if len(servers) < 40 {
		t.Errorf("only %d servers are listed", len(servers))
	}
	for _, s := range servers {
		t.Run(strings.ReplaceAll(s.Package, "/", "+"), func(t *testing.T) {
			t.Parallel()
			work := t.TempDir()
			command := append([]string{hosttest.Peer(t, "node_modules/node/bin/node"), s.install(t, packages)}, s.Args...)
			env := maps.Clone(s.Env)
			if env == nil {
				env = make(map[string]string)
			}
			env["PATH"], env["HOME"] = filepath.Dir(command[0])+":/usr/bin:/bin", work
			listed, mounted := listedBy(t, command, env, work), mountedFrom(t, command, env, work)
			if len(listed) == 0 || len(mounted) != len(listed) {
				t.Errorf("the server lists %d tools: %q\nthe mount has %d: %q", len(listed), listed, len(mounted), mounted)
			}
		})
	}
}

// install installs the package of a server without running its scripts. It returns the path of the server's program.
func (s *publicServer) install(t *testing.T, packages string) string {
	t.Helper()
	dir := filepath.Join(packages, strings.ReplaceAll(s.Package, "/", "+")+"@"+s.Version)
	home := filepath.Join(dir, "node_modules", s.Package)
	stamp := filepath.Join(dir, "installed")
	if _, err := os.Stat(stamp); err != nil {
		hosttest.Must(t, os.MkdirAll(dir, 0o755))
		hosttest.Must(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600))
		c := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", s.Package+"@"+s.Version)
		c.Dir = dir
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		hosttest.Must(t, os.WriteFile(stamp, nil, 0o600))
	}
	b, err := os.ReadFile(filepath.Join(home, "package.json"))
	hosttest.Must(t, err)
	var of struct{ Bin json.RawMessage }
	hosttest.Must(t, json.Unmarshal(b, &of))
	var program string
	if json.Unmarshal(of.Bin, &program) != nil {
		all := make(map[string]string)
		hosttest.Must(t, json.Unmarshal(of.Bin, &all))
		if program = all[filepath.Base(s.Package)]; program == "" {
			program = all[slices.Sorted(maps.Keys(all))[0]]
		}
	}
	return filepath.Join(home, program)
}

// listedBy returns the names of the tools that a server lists for the SDK's own client.
func listedBy(t *testing.T, command []string, env map[string]string, dir string) (names []string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Dir, c.Env = dir, []string{}
	for k, v := range env {
		c.Env = append(c.Env, k+"="+v)
	}
	in, err := c.StdinPipe()
	hosttest.Must(t, err)
	stdout, err := c.StdoutPipe()
	hosttest.Must(t, err)
	hosttest.Must(t, c.Start())
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }() // some servers do not end when their input ends
	messages, out := io.Pipe()
	go func() { // some servers print text besides messages
		lines := bufio.NewReader(stdout)
		for {
			line, err := lines.ReadBytes('\n')
			if bytes.HasPrefix(line, []byte("{")) && bytes.Contains(line, []byte(`"jsonrpc"`)) {
				_, _ = out.Write(line) // ignore the error: it means that the client has ended
			}
			if err != nil {
				_ = out.CloseWithError(err)
				return
			}
		}
	}()
	client := hosttest.Connect(t, "2025-11-25", &mcp.IOTransport{Reader: messages, Writer: in}, new(hosttest.User), nil)
	for tool, err := range client.Tools(t.Context(), nil) {
		hosttest.Must(t, err)
		if !slices.Contains(names, tool.Name) {
			names = append(names, tool.Name)
		}
	}
	return names
}

// mountedFrom mounts a server and returns the names of its tools.
func mountedFrom(t *testing.T, command []string, env map[string]string, dir string) (names []string) {
	t.Helper()
	argv, err := json.Marshal(command)
	hosttest.Must(t, err)
	var variables strings.Builder
	for k, v := range env {
		fmt.Fprintf(&variables, "      %s = %q\n", k, v)
	}
	home := t.TempDir()
	config := fmt.Sprintf("bundled = false\nsandbox {\n  enforce = \"off\"\n}\nfield \"m\" {\n  start_timeout = \"60s\"\n  mcp {\n    command = %s\n    cwd     = %q\n    env = {\n%s    }\n  }\n}\n", argv, dir, variables.String())
	hosttest.Must(t, os.WriteFile(filepath.Join(home, "toolhost.hcl"), []byte(config), 0o600))
	b, err := hosttest.Toolhost(t, home, "tools", "--format", "json").Output()
	hosttest.Must(t, err)
	var tools []struct{ Namespace, Name string }
	hosttest.Must(t, json.Unmarshal(b, &tools))
	for _, tool := range tools {
		if tool.Namespace == "m" {
			names = append(names, tool.Name)
		}
	}
	return names
}
