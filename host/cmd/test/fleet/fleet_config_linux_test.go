package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// states returns the states of all nodes, as node n sees them.
func (n *fleetNode) states() map[string]string {
	n.fleet.t.Helper()
	var st struct {
		Nodes []struct{ Node, State string }
	}
	hosttest.Must(n.fleet.t, json.Unmarshal([]byte(n.do("fleet", "status", "--json")), &st))
	out := make(map[string]string)
	for _, s := range st.Nodes {
		out[s.Node] = s.State
	}
	return out
}

// ownSession creates sessions until the node owns one of them, and returns the id of this session.
func (n *fleetNode) ownSession(prefix string) string {
	n.fleet.t.Helper()
	for i := range 50 {
		id := fmt.Sprintf("%s-%d", prefix, i)
		n.want(id, "true")
		if owner, _ := n.fleet.owner(id); owner == n {
			return id
		}
	}
	n.fleet.t.Fatalf("node %s gets no session", n.name)
	return ""
}

// console manages the fleet in a browser. It drains a node, ends the drain, and promotes the configuration on trial.
func (f *testFleet) console(n *fleetNode) {
	t := f.t
	t.Helper()
	ctx := hosttest.Browser(t)
	var text string
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(1280, "light"), chromedp.Navigate(strings.TrimSpace(n.do("console"))), hosttest.Press(`nav a[href="/fleet"]`),
		hosttest.Appears(`[aria-label="Drain one"]`), hosttest.Appears(`[aria-label="Trial"]`), hosttest.Reads("#live", &text)))
	for _, want := range []string{"as node one sees it", "repo(shared)", "on trial", "present", "name=two", "1 of 1 current"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	hosttest.Shot(ctx, t, "fleet")
	if found := hosttest.Axe(ctx, t); found != "" {
		t.Errorf("fleet: %s", found)
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`[aria-label="Drain one"]`), hosttest.Appears(`[aria-label="Undrain one"]`), hosttest.Press(`[aria-label="Undrain one"]`), hosttest.Appears(`[aria-label="Drain one"]`)))
	var wide bool
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Look(390, "dark"), chromedp.Reload(), hosttest.Appears(`[aria-label="Trial"]`), chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &wide)))
	if wide {
		t.Error("the page is wider than a phone")
	}
	if found := hosttest.Axe(ctx, t); found != "" {
		t.Errorf("fleet, dark: %s", found)
	}
	hosttest.Must(t, chromedp.Run(ctx, hosttest.Press(`form[action="/fleet/promote"] button`), hosttest.Disappears(`form[action="/fleet/promote"]`)))
	c := hosttest.NewClient(t, n.address(), hosttest.ServerToken)
	c.Want(200, `"rollout":null`, "GET", "/v1/fleet", "")
	c.Want(200, `"(fleet drain)"`, "GET", "/v1/log?layer=administration&text=fleet", "")
	c.Want(403, "needs the right administer", "POST", "/v1/fleet/drain", `{"node":"two"}`)
}

// TestFleetConfig checks that a configuration can be applied on one node, and then on all nodes. The configuration has
// a plugin from a registry that no longer exists. Only one machine has installed the plugin.
func TestFleetConfig(t *testing.T) {
	t.Parallel()
	mirror := filepath.Join(t.TempDir(), "mirror")
	const src = "registry.invalid/acme/weather"
	o := hosttest.NewOperator(t, "plugin \"weather\" {\n  source = \""+src+"\"\n}\n\nmirror \"registry.invalid/*\" {\n  to = \"file://"+mirror+"\"\n}\n")
	program := filepath.Join(o.Dir, "weather")
	b, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(program, append(b, "\n!variant name=weather version=1.0.0\n"...), 0o755))
	o.Run(0, "toolhost plugin key acme")
	o.Run(0, fmt.Sprintf("toolhost plugin publish --key acme.key --to file://%s --platform %s/%s=%s %s:1.0.0", mirror, runtime.GOOS, runtime.GOARCH, program, src))
	o.Run(0, "toolhost plugin install")
	hosttest.Must(t, os.RemoveAll(mirror))
	pushed := filepath.Join(o.Dir, "config", "toolhost", "toolhost.hcl")

	f := newFleet(t, "")
	settings, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	start := func(name string, more ...string) *fleetNode {
		n := &fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: fleetPort(t), config: filepath.Join(f.dir, "etc", name+".hcl"), env: append([]string{"XDG_DATA_HOME=" + filepath.Join(f.dir, name, "data")}, more...)}
		text := "fleet {\n  labels = { name = \"" + name + "\" }\n" + strings.TrimPrefix(strings.Replace(string(settings), "lease =", "lease  =", 1), "fleet {\n")
		hosttest.Must(t, os.WriteFile(n.config, []byte(text), 0o644))
		return f.startNode(n)
	}
	one, two := start("one", "XDG_DATA_HOME="+filepath.Join(o.Dir, "data")), start("two")
	onOne, onTwo := one.ownSession("one"), two.ownSession("two")
	file := func(n *fleetNode) string {
		b, err := os.ReadFile(n.config)
		hosttest.Must(t, err)
		return string(b)
	}
	beforeOne, beforeTwo := file(one), file(two)
	// serves checks which nodes have the plugin. It calls each of the two nodes through the other node.
	serves := func(byOne, byTwo bool) {
		t.Helper()
		for id, want := range map[string]bool{onOne: byOne, onTwo: byTwo} {
			gateway := one
			if id == onOne {
				gateway = two
			}
			res, err := gateway.call(t.Context(), fleetCall{Command: "tool:echo hello", Session: id})
			hosttest.Must(t, err)
			if res.Success != want {
				t.Errorf("the session %s: %s, want success: %v", id, res, want)
			}
		}
		hosttest.Wait(t, "both nodes are ready", func() bool {
			st := one.states()
			return st["one"] == "ready" && st["two"] == "ready"
		})
	}
	serves(false, false)
	if out := one.do("fleet", "rollout"); !strings.Contains(out, "no configuration is on trial") {
		t.Errorf("%s", out)
	}
	one.refused("--canary NODE", "fleet", "config", "push", pushed)
	one.refused("no node \"tow\"", "fleet", "config", "push", pushed, "--canary", "tow")
	bad := filepath.Join(o.Dir, "bad.hcl")
	hosttest.Must(t, os.WriteFile(bad, []byte("plugin \"read\" {\n  nonsense = 1\n}\n"), 0o644))
	one.refused("nonsense", "fleet", "config", "push", bad, "--canary", "two")
	missing := filepath.Join(o.Dir, "missing.hcl")
	hosttest.Must(t, os.WriteFile(missing, []byte("plugin \"broken\" {\n  path = \"/nonexistent/plugin\"\n}\n"), 0o644))
	one.refused("all nodes keep the present one", "fleet", "config", "push", missing, "--canary", "two,one")
	serves(false, false)
	if file(one) != beforeOne || file(two) != beforeTwo {
		t.Errorf("a refused configuration left traces:\n%s%s", file(one), file(two))
	}

	if out := one.do("fleet", "config", "push", pushed, "--canary", "two"); !strings.Contains(out, "two") || !strings.Contains(out, "on trial") {
		t.Errorf("%s", out)
	}
	serves(false, true)
	if text := file(two); !strings.Contains(text, "weather") || !strings.Contains(text, `name = "two"`) || file(one) != beforeOne {
		t.Errorf("the files are\n%s%s", text, file(one))
	}
	two.refused("is on trial at two", "fleet", "config", "push", pushed, "--canary", "one")
	two.refused("is on trial at two", "fleet", "config", "adopt")
	if out := two.do("fleet", "rollout", "--json"); !strings.Contains(out, `"new":true`) || !strings.Contains(out, `"node":"one"`) {
		t.Errorf("%s", out)
	}
	two.do("fleet", "config", "abort")
	serves(false, false)
	if file(two) != beforeTwo {
		t.Errorf("after the end of the trial: %s", file(two))
	}
	two.refused("no configuration is on trial", "fleet", "config", "promote")

	one.do("fleet", "config", "push", pushed, "--canary", "two")
	f.console(one)
	serves(true, true)
	if text := file(one); !strings.Contains(text, "weather") || !strings.Contains(text, `name = "one"`) {
		t.Errorf("the configuration of the node one is %s", text)
	}

	// A node with a different configuration takes no sessions until it has the configuration of the fleet.
	three := start("three")
	if st := one.states(); st["three"] != "mismatched" {
		t.Errorf("%v", st)
	}
	one.do("fleet", "config", "pull", "three")
	hosttest.Wait(t, "the third node is ready", func() bool { return one.states()["three"] == "ready" })
	if got, _ := filepath.Glob(filepath.Join(f.dir, "three", "data", "toolhost", "store", "content", "h1-*", "weather")); len(got) != 1 {
		t.Errorf("the third node has %q", got)
	}
	res, err := one.call(t.Context(), fleetCall{Command: "tool:echo hello", Session: three.ownSession("three")})
	hosttest.Must(t, err)
	if !res.Success || res.Output != "hello" {
		t.Errorf("%s", res)
	}
}
