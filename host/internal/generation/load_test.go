package generation_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/testbuilder"
	"toolhost.dev/host/internal/testprogram"
)

// one returns a directory with the configuration of one plugin "p".
func one(t *testing.T, words, block string) *testbuilder.Dir {
	t.Helper()
	d := testbuilder.NewDir(t)
	d.Write("p", words)
	d.Configure(d.Plugin("p", block))
	return d
}

func contains(t *testing.T, what string, list []string, text string) {
	t.Helper()
	if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, text) }) {
		t.Errorf("%s %q: none contains %q", what, list, text)
	}
}

// TestLoad checks what a generation has of a plugin that works, and the reason why another one is missing.
func TestLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		words, block string
		problem      string // empty if the plugin is loaded
	}{
		"it works":              {"", "", ""},
		"it ends at once":       {"start=exit", "", "toolhost.hcl:5: Plugin p did not start: the plugin exited before its handshake: exit status 3"},
		"it needs a newer host": {"newer=yes", "", "needs host 99.0.0 or later"},
		"a grant is missing":    {"needs=exec", "", "needs to start programs"},
		"the grant is there":    {"needs=exec", "sandbox {\n exec = true\n}", ""},
		"it rejects its config": {"", "config {\n limit = -1\n}", "The limit is negative."},
		"unknown setting":       {"", "config {\n grating = 1\n}", "grating"},
		"it accepts its config": {"", "config {\n limit = 1\n}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := testbuilder.NewDir(t)
				d.Write("p", tc.words)
				d.Write("other", "name=other drop=echo add=second")
				d.Configure(d.Plugin("p", tc.block) + d.Plugin("other", `field = "other"`))
				g := testbuilder.New(t, d).Load(t)
				if g.Registry.Find("other:second") == nil {
					t.Error("another plugin is missing")
				}
				loaded := g.Registry.Find("echo") != nil
				if loaded != (tc.problem == "") || (g.Plugin("p").Err == nil) != loaded || (g.Unloaded["p"] == "") != loaded {
					t.Errorf("loaded: %t, problems %q", loaded, g.Problems)
				}
				if tc.problem == "" {
					return
				}
				contains(t, "problems", g.Problems, tc.problem)
				contains(t, "broken", g.Broken, tc.problem)
				if why := g.WhyUnloaded("p"); !strings.Contains(why, tc.problem) || !strings.HasSuffix(why, "The other tools work; toolhost status lists all tools.") {
					t.Errorf("why it is not loaded: %q", why)
				}
			})
		})
	}
}

// TestMissingProgram checks that a program that does not exist is no obstacle for other plugins.
func TestMissingProgram(t *testing.T) {
	d := one(t, "", "")
	d.Configure(d.Plugin("p", "") + d.Plugin("gone", ""))
	g := testbuilder.New(t, d).Load(t)
	if g.Registry.Find("echo") == nil || g.Plugin("unknown") != nil {
		t.Error("the other plugin is missing")
	}
	contains(t, "problems", g.Problems, d.Program("gone")+" does not exist")
}

// TestNamesCollide checks that the second of two plugins with the same tools is refused, with the reason.
func TestNamesCollide(t *testing.T) {
	d := one(t, "", "")
	d.Write("q", "name=q")
	d.Configure(d.Plugin("p", "") + d.Plugin("q", ""))
	h := testbuilder.New(t, d)
	cfg, launcher := h.Open(t)
	first, err := h.Builder.Load(t.Context(), cfg, launcher)
	if err != nil {
		t.Fatal(err)
	}
	g, refused, err := h.Assemble(cfg, launcher, first.Plugins)
	if err != nil || refused["p"] != nil || refused["q"] == nil || len(g.Broken) != 1 {
		t.Errorf("refused: %v, %v; %q", refused, err, g.Broken)
	}
	if e := g.Registry.Find("echo"); e == nil || e.Plugin != "p" {
		t.Errorf("%+v", e)
	}
}

// TestDescriptionsAreKept checks that a later host starts no program whose description is known, and starts it again if
// the program or its settings change.
func TestDescriptionsAreKept(t *testing.T) {
	d := one(t, "", "")
	starts := 0
	load := func(words, block string, want int) {
		t.Helper()
		d.Configure(d.Plugin("p", block))
		if words != "" {
			d.Write("p", words)
		}
		t.Run("", func(t *testing.T) {
			g := testbuilder.New(t, d).Load(t)
			if g.Plugin("p").Description() == nil {
				t.Error(g.Problems)
			}
		})
		if n := len(d.Programs.Started()) - starts; n != want {
			t.Errorf("%d programs were started, want %d", n, want)
		}
		starts = len(d.Programs.Started())
	}
	load("", "", 1)
	load("", "", 0)
	load("version=2.0.0", "", 1)
	load("", `args = ["x"]`, 1)
	load("version=1.0.0", `args = ["x"]`, 1)
	load("version=2.0.0", "", 0) // both are known
	load("version=2.0.0", "start_timeout = \"1m\"", 0)
}

// TestSlowFailureIsKept checks that a start that failed after a long time is not repeated for a minute, unless its
// binary or its settings changed.
func TestSlowFailureIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := one(t, "start=hang", `start_timeout = "3s"`)
		load := func(retry bool, want int) {
			t.Helper()
			h := testbuilder.New(t, d)
			h.Options.RetryFailed = retry
			g := h.Load(t)
			contains(t, "problems", g.Problems, "no handshake within 3s")
			if n := len(d.Programs.Started()); n != want {
				t.Errorf("%d programs were started, want %d", n, want)
			}
		}
		load(false, 1)
		load(false, 1)
		time.Sleep(59 * time.Second)
		load(false, 1)
		load(true, 2)
		time.Sleep(time.Minute)
		load(false, 3)
		load(false, 3)
		for i, change := range []string{"sandbox {\n  read = [\"/etc\"]\n}", "sandbox {\n  enforce = \"off\"\n}"} {
			d.Configure(d.Plugin("p", `start_timeout = "3s"`+"\n"+change))
			load(false, 4+i)
			load(false, 4+i)
		}
		text, err := os.ReadFile(d.Config())
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("sandbox {"), []byte("sandbox {\n  root \"/usr\" {}"), 1)
		if err := os.WriteFile(d.Config(), text, 0o600); err != nil {
			t.Fatal(err)
		}
		load(false, 6)
		d.Write("p", "start=exit") // another binary is tried at once
		g := testbuilder.New(t, d).Load(t)
		contains(t, "problems", g.Problems, "exit status 3")
	})
}

// TestModesOfLoading checks the options that start no plugin, or only until it has described itself.
func TestModesOfLoading(t *testing.T) {
	t.Run("unstarted", func(t *testing.T) {
		d := one(t, "", "")
		h := testbuilder.New(t, d)
		h.Options.Unstarted = true
		g := h.Load(t)
		if p := g.Plugin("p"); !errors.Is(p.Err, generation.ErrUnstarted) || len(d.Programs.Started()) != 0 {
			t.Errorf("%v; %d starts", p.Err, len(d.Programs.Started()))
		}
		if err := h.Describe(t.Context(), g.Plugin("p")); err != nil || g.Plugin("p").Description() == nil {
			t.Error(err)
		}
	})
	t.Run("describe only", func(t *testing.T) {
		d := one(t, "", "config {\n limit = -1\n}") // it would be rejected if the plugin were configured
		h := testbuilder.New(t, d)
		h.Options.DescribeOnly = true
		if desc := h.Load(t).Plugin("p").Description(); desc == nil || desc.Version != "1.0.0" || len(d.Programs.Running()) != 0 {
			t.Errorf("%+v; %d programs run", desc, len(d.Programs.Running()))
		}
	})
}

// TestDependencies checks that the plugins on which a plugin depends start first, and that it does not start without
// them.
func TestDependencies(t *testing.T) {
	for words, want := range map[string]string{"": "", "start=exit": "the plugin depends on plugin base: Plugin base did not start"} {
		d := testbuilder.NewDir(t)
		d.Write("base", "name=base version=1.1.1 "+words)
		d.Write("p", "version=2.2.2 drop=echo")
		d.Configure(d.Plugin("p", `depends_on = ["base"]`+"\nfield = \"p\"") + d.Plugin("base", ""))
		g := testbuilder.New(t, d).Load(t)
		started := d.Programs.Started()
		if started[0].Version() != "1.1.1" {
			t.Errorf("%q: version %s was started first", words, started[0].Version())
		}
		if want == "" {
			if err := g.Plugin("p").Err; err != nil || len(started) != 2 {
				t.Errorf("%v; %d starts", err, len(started))
			}
		} else {
			contains(t, "problems", g.Problems, want)
		}
	}
}

// TestStatesFollowThePlugin checks the states of a plugin's tools while the plugin is suspended and works again.
func TestStatesFollowThePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := one(t, "", "restart {\n failures = 1\n pause = \"1m\"\n}")
		h := testbuilder.New(t, d)
		g := h.Load(t)
		life := func() registry.State { return g.Registry.Find("echo").Life.State() }
		if life() != registry.Ready || g.Suspended("p") || g.Suspended("unknown") {
			t.Errorf("state %s", life())
		}
		d.Write("p", "start=exit")
		d.Programs.Running()[0].End(nil)
		time.Sleep(time.Second)
		if life() != registry.Disabled || !g.Suspended("p") {
			t.Errorf("state %s of a suspended plugin", life())
		}
		d.Write("p", "")
		time.Sleep(time.Minute)
		if _, err := g.Plugin("p").Process.Describe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if life() != registry.Ready {
			t.Errorf("state %s of a plugin that runs again", life())
		}
		d.Programs.Running()[0].End(nil)
		synctest.Wait()
	})
}

// TestOtherVersionAtARestart checks that a program that was replaced on the disk without a reload starts only if it is
// compatible.
func TestOtherVersionAtARestart(t *testing.T) {
	for words, want := range map[string]string{
		"version=2.0.0 add=more":  "",
		"version=2.0.0 drop=echo": "breaks callers of its tools (echo: the tool was removed)",
	} {
		synctest.Test(t, func(t *testing.T) {
			d := one(t, "", "")
			g := testbuilder.New(t, d).Load(t)
			d.Write("p", words)
			d.Programs.Running()[0].End(nil)
			synctest.Wait()
			desc, err := g.Plugin("p").Process.Describe(t.Context())
			if want == "" && (err != nil || desc.Version != "2.0.0") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %+v, %v", words, desc, err)
			}
		})
	}
}

// TestBreaks checks which versions are incompatible, and that the configuration can permit them.
func TestBreaks(t *testing.T) {
	d := one(t, "", "")
	h := testbuilder.New(t, d)
	old := h.Load(t).Plugin("p").Description()
	cfg, _ := h.Open(t)
	fewer := *old
	fewer.Version, fewer.Tools = "2.0.0", old.Tools[1:]
	if err := generation.Breaks(cfg, "p", old, &fewer); err == nil || !strings.Contains(err.Error(), "toolhost plugin reload p --accept-changes") {
		t.Errorf("%v", err)
	}
	if err := errors.Join(generation.Breaks(cfg, "p", &fewer, old), generation.Breaks(cfg, "p", nil, &fewer)); err != nil {
		t.Error(err)
	}
	cfg.Reload.AnyChanges = true
	if err := generation.Breaks(cfg, "p", old, &fewer); err != nil {
		t.Error(err)
	}
}

// TestLeaseOfARetiredPlugin checks that the dispatcher gets no lease of a retired plugin.
func TestLeaseOfARetiredPlugin(t *testing.T) {
	d := one(t, "", "")
	g := testbuilder.New(t, d).Load(t)
	lease := g.Dispatch.Reserve("p", "")
	if lease == nil {
		t.Fatal("no lease")
	}
	g.Plugin("p").Process.Retire()
	if again := g.Dispatch.Reserve("p", ""); again != nil {
		t.Error("a retired plugin is leased")
	}
	if n := g.Plugin("p").Process.Users(); n != 1 {
		t.Errorf("%d leases", n)
	}
	lease.Release()
}

// TestConfigIsChecked checks that a configuration can be checked without a start once the program is known.
func TestConfigIsChecked(t *testing.T) {
	d := one(t, "", "")
	h := testbuilder.New(t, d)
	h.Load(t)
	starts := len(d.Programs.Started())
	for block, want := range map[string]string{"limit = 3": "", "limit = \"many\"": "limit", "grating = 1": "grating"} {
		d.Configure(d.Plugin("p", "config {\n "+block+"\n}"))
		cfg, launcher := h.Open(t)
		p := &generation.Plugin{Plugin: *cfg.Plugin("p")}
		if err := h.CheckConfig(cfg, p); err != nil {
			t.Errorf("an unknown binary: %v", err)
		}
		h.Identify(cfg, launcher, p)
		if err := h.CheckConfig(cfg, p); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", block, err)
		}
	}
	if n := len(d.Programs.Started()); n != starts {
		t.Errorf("%d programs were started", n-starts)
	}
}

// TestDiscovery checks that the tools that a plugin discovers at run time are reported and kept.
func TestDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := one(t, "discovers=yes", "")
		h := testbuilder.New(t, d)
		found := make(chan *tool.Description, 1)
		h.Found = found
		g := h.Load(t)
		if g.Registry.Find("echo") == nil || g.Registry.Find("new") != nil {
			t.Fatal(g.Problems)
		}
		lease := g.Dispatch.Reserve("p", "")
		defer lease.Release()
		if res := lease.Call(t.Context(), &tool.Call{Tool: "grow", Arguments: []byte(`{"name":"new"}`)}, testprogram.Peer{}); res.Error != nil {
			t.Fatal(res.Error)
		}
		now := <-found
		if !slices.ContainsFunc(now.Tools, func(d tool.Definition) bool { return d.Name == "new" }) {
			t.Errorf("%+v", now.Tools)
		}
		cfg, launcher := h.Open(t)
		p := &generation.Plugin{Plugin: *cfg.Plugin("p")}
		h.Identify(cfg, launcher, p)
		if !h.RecallDescription(p) || len(p.Description().Tools) != len(now.Tools) {
			t.Error("the description is not kept")
		}
	})
}

// TestEventsAreCounted checks the statistics of a plugin's programs.
func TestEventsAreCounted(t *testing.T) {
	d := one(t, "start=exit", "")
	h := testbuilder.New(t, d)
	h.Load(t)
	stats := h.Calls.Metrics.Plugins(nil)
	if len(stats) != 1 || stats[0].Name != "p" || stats[0].FailedStarts != 1 {
		t.Errorf("%+v", stats)
	}
}
