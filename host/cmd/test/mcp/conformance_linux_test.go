//go:build oracle

package mcp

import (
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestConformanceOfClients runs the client suites of the official conformance suite. In each scenario, a user of
// toolhost mounts the suite's server, logs in if the server asks for it, and uses what the server offers.
func TestConformanceOfClients(t *testing.T) {
	t.Parallel()
	client := filepath.Join(hosttest.Bin, "testclient")
	for era, scenarios := range map[string]int{"2025-11-25": 19, "2026-07-28": 33} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			c := hosttest.Node(t, hosttest.Peer(t, "node_modules/@modelcontextprotocol/conformance/dist/index.js"), "client",
				"--command", client+" "+filepath.Join(hosttest.Bin, "toolhost"), "--suite", "all", "--spec-version", era, "--timeout", "120000", "--verbose")
			c.Dir = t.TempDir()
			b, err := c.Output()
			_, summary, _ := strings.Cut(string(b), "=== SUITE SUMMARY ===")
			if passed := strings.Count(summary, "\n✓ "); err != nil || passed != scenarios {
				t.Errorf("%v: %d of %d scenarios pass\n%s", err, passed, scenarios, summary)
			}
		})
	}
}
