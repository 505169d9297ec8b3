//go:build oracle

package mcp

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// publicServer is one entry of bench/mounts/servers.json. The credentials of the entry are invented, because no server
// reaches the network.
type publicServer struct {
	Package, Version string
	Args             []string
	Env              map[string]string
}

// TestMountsOfPublicServers installs public MCP servers, mounts each of them, and calls each tool; see [passThrough].
// No tool may be missing. The test runs only if TOOLHOST_MOUNTS names a directory for the packages, because they need
// gigabytes (make soak-mounts).
func TestMountsOfPublicServers(t *testing.T) {
	packages := os.Getenv("TOOLHOST_MOUNTS")
	if packages == "" {
		t.Skip("TOOLHOST_MOUNTS is not set; run make soak-mounts")
	}
	b, err := os.ReadFile("../../../../bench/mounts/servers.json")
	hosttest.Must(t, err)
	var servers []publicServer
	hosttest.Must(t, json.Unmarshal(b, &servers))
	if len(servers) < 40 {
		t.Errorf("only %d servers are listed", len(servers))
	}
	for _, s := range servers {
		t.Run(strings.ReplaceAll(s.Package, "/", "+"), func(t *testing.T) {
			t.Parallel()
			command := append([]string{hosttest.Peer(t, "node_modules/node/bin/node"), s.install(t, packages)}, s.Args...)
			n := passThrough(t, command, s.Env, "")
			t.Logf("%+v", n)
			if n.tools == 0 {
				t.Error("no tool was called")
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
