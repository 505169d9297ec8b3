package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestFleetClients checks what a client of MCP without a connection sends to a fleet (the workspace and its own id of a
// call), the metrics of nodes, and the log of the fleet.
func TestFleetClients(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "")
	other := filepath.Join(f.dir, "other")
	hosttest.Must(t, os.Mkdir(other, 0o755))
	config, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	text := strings.Replace(string(config), "  workspace \"repo\"", fmt.Sprintf("  workspace \"other\" {\n    path   = %q\n    shared = \"the-other\"\n  }\n  workspace \"repo\"", other), 1)
	hosttest.Must(t, os.WriteFile(f.config, []byte(text), 0o644))
	one, two := f.start("one"), f.start("two")

	requests := 0
	call := func(n *fleetNode, workspace, id, command string) string {
		t.Helper()
		requests++ // a client that repeats a call sends another request
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"bash","arguments":{"command":%q},"_meta":{"toolhost.dev/session":"mine","toolhost.dev/call-id":%q,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, requests, command, id)
		return string(hosttest.PostStateless(t, n.address()+"/mcp", hosttest.ServerToken, "tools/call", "bash", workspace, []byte(body)))
	}
	for _, n := range []*fleetNode{one, two, one} {
		if got := call(n, "other", "c1", "pwd; echo line >> once.txt"); !strings.Contains(got, other) || strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: %s", n.name, got)
		}
	}
	if b, err := os.ReadFile(filepath.Join(other, "once.txt")); err != nil || string(b) != "line\n" {
		t.Errorf("the call ran several times, or elsewhere: %q %v", b, err)
	}
	if got := call(two, "othr", "c2", "pwd"); !strings.Contains(got, "other") || !strings.Contains(got, `"isError":true`) {
		t.Errorf("an unknown workspace: %s", got)
	}

	one.want("s", "true")
	owner, gateway := f.owner("s")
	for range 3 {
		gateway.want("s", "touch figures")
	}
	f.figures(owner, gateway)

	// The log of the fleet has the calls of both nodes, and names a node that does not answer.
	for i := range 20 { // sessions are spread over the nodes
		one.want("log"+strconv.Itoa(i), "true")
	}
	nodes := make(map[string]int)
	var log struct {
		Entries []struct{ Node string }
	}
	hosttest.Must(t, json.Unmarshal([]byte(one.do("fleet", "log", "--json", "--since", "1h")), &log))
	for _, e := range log.Entries {
		nodes[e.Node]++
	}
	if nodes["one"] == 0 || nodes["two"] == 0 {
		t.Errorf("the log has these entries of nodes: %v", nodes)
	}
	two.kill()
	if got := one.do("fleet", "log", "--since", "1h"); !strings.Contains(got, "missing: node two: the node two does not answer") {
		t.Errorf("the log does not name the node that is missing:\n%s", got)
	}
}

// figures checks the metrics of the owner of a session and of another node, which sent at least three calls to the
// owner.
func (f *testFleet) figures(owner, gateway *fleetNode) {
	t := f.t
	t.Helper()
	value := func(n *fleetNode, name string) float64 {
		t.Helper()
		_, body := hosttest.NewClient(t, n.address(), hosttest.ServerToken).Do("GET", "/metrics", "")
		for line := range strings.Lines(body) {
			if rest, ok := strings.CutPrefix(line, "toolhost_fleet_"+name+" "); ok {
				v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				hosttest.Must(t, err)
				return v
			}
		}
		t.Errorf("%s has no metric toolhost_fleet_%s", n.name, name)
		return 0
	}
	for _, m := range []struct {
		node     *fleetNode
		name     string
		at, most float64
	}{
		{gateway, "forwarded_total", 3, 1e6}, {gateway, "forward_seconds_count", 3, 1e6}, {gateway, "lease_remaining_seconds", 0.01, 2},
		{owner, "journal_append_seconds_count", 2, 1e6}, {owner, "sessions", 1, 100}, {owner, `nodes{state="ready"}`, 2, 2},
		{owner, "takeovers_total", 0, 0}, {owner, "outcome_unknown_total", 0, 0}, {owner, "not_owner_total", 0, 1e6},
	} {
		if v := value(m.node, m.name); v < m.at || v > m.most {
			t.Errorf("%s: toolhost_fleet_%s is %v, want %v to %v", m.node.name, m.name, v, m.at, m.most)
		}
	}
}
