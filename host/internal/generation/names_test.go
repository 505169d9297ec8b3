package generation_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/testbuilder"
)

// TestRules checks that rules are compared with the tools that are registered.
func TestRules(t *testing.T) {
	for rule, want := range map[string]string{
		`tool = "echo"`:  "",
		`tool = "e*"`:    "",
		`tool = "say"`:   "", // an alias
		`tool = "ekho"`:  `Unknown tool "ekho". Did you mean "echo"?`,
		`kind = "bash"`:  "",
		`kind = "bashh"`: `Unknown kind of permission "bashh"`,
		`tool = "echo"` + "\n" + `path = "/x/**"`:  "None of the tools that the rule matches has a path parameter",
		"tool = \"echo\"\nset = { text = \"x\" }":  "",
		"tool = \"echo\"\nset = { texts = \"x\" }": "The tool echo does not accept these parameters",
		"path = \"/x/**\"\nset = { text = \"x\" }": "The rule has parameters but names no tool",
	} {
		t.Run(rule, func(t *testing.T) {
			effect := "deny"
			if strings.Contains(rule, "set") {
				effect = "allow"
			}
			d := testbuilder.NewDir(t)
			d.Write("p", "")
			d.Configure(d.Plugin("p", "") + "alias \"say\" {\n tool = \"echo\"\n}\npermissions {\n " + effect + " \"r\" {\n" + rule + "\n }\n}\n")
			h := testbuilder.New(t, d)
			cfg, launcher := h.Open(t)
			g, err := h.Builder.Load(t.Context(), cfg, launcher)
			if g == nil || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// TestRulesWithoutTheirPlugin checks that a rule about a tool of a plugin that is not loaded is only a problem, because
// the next load can register the tool.
func TestRulesWithoutTheirPlugin(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "start=exit")
	d.Configure(d.Plugin("p", "") + "permissions {\n deny \"r\" {\n tool = \"echo\"\n }\n}\n")
	contains(t, "problems", testbuilder.New(t, d).Load(t).Problems, `Unknown tool "echo"`)
}

// TestToolsOfHooks checks that a hook is about the tools that its configuration means, and that a hook about no tool is
// an error. Such a hook would never run, and nobody would notice.
func TestToolsOfHooks(t *testing.T) {
	for name, want := range map[string]string{
		"echo": "", "e*": "", "say": "", "tool:echo": "", "*": "",
		"ekho":           `Unknown tool "ekho". Did you mean "echo"?`,
		"echo(rm *)":     `A name here has no arguments: write "echo"`,
		"say(rm *)":      `write "echo"`,
		"jira:search":    `Unknown tool "jira:search"`,
		"field:calc add": `Unknown tool "field:calc add"`,
		"mcp__*":         `Unknown tool "mcp__*"`,
	} {
		t.Run(name, func(t *testing.T) {
			d := testbuilder.NewDir(t)
			d.Write("p", "")
			d.Configure(d.Plugin("p", "") + "alias \"say\" {\n tool = \"echo\"\n}\nhook \"h\" {\n on = [\"before_call\"]\n tools = [\"" + name + "\"]\n command = [\"/bin/true\"]\n}\n")
			h := testbuilder.New(t, d)
			cfg, launcher := h.Open(t)
			g, err := h.Builder.Load(t.Context(), cfg, launcher)
			if want != "" {
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "toolhost.hcl:") {
					t.Errorf("%v, want %q with its line", err, want)
				}
				return
			}
			if err != nil || len(g.Hooks.For(tool.HookBefore, "echo")) != 1 {
				t.Errorf("no hook runs before echo: %v", err)
			}
		})
	}
}

// TestMisnames checks which names in a configuration are reported because no tool has them.
func TestMisnames(t *testing.T) {
	for block, want := range map[string]string{
		"tool \"echo\" {\n enabled = false\n}":                                                        "",
		"tool \"ekho\" {\n timeout = \"1s\"\n}":                                                       `Unknown tool "ekho". Did you mean "echo"?`,
		"tool \"e*\" {\n timeout = \"1s\"\n}":                                                         "A tool block applies to one tool",
		"tool \"tool:echo\" {\n enabled = false\n}":                                                   "",
		"alias \"say\" {\n tool = \"echo\"\n}\ntool \"say\" {}":                                       "",
		"tool \"echo\" {}\ntool \"tool:echo\" {}":                                                     `The block tool "echo" is about the same tool`,
		"alias \"say\" {\n tool = \"echo\"\n}\ntool \"say\" {}\ntool \"tool:echo\" {}":                `The block tool "say" is about the same tool`,
		"tool \"echo\" {\n fallback {\n tool = \"where\"\n }\n}":                                      "",
		"tool \"echo\" {\n fallback {\n tool = \"elsewhere\"\n }\n}":                                  "elsewhere",
		"alias \"say\" {\n tool = \"where\"\n}\ntool \"echo\" {\n fallback {\n tool = \"say\"\n }\n}": "",
		"tool \"echo\" {\n fallback {\n tool = \"e*\"\n }\n}":                                         `"e*" is not one tool`,
		"tool \"echo\" {\n fallback {\n tool = \"tool:echo\"\n }\n}":                                  "The fallbacks do not end. They are echo, and then echo again",
		"alias \"say\" {\n tool = \"where\"\n}\ntool \"echo\" {\n fallback {\n tool = \"say\"\n }\n}\ntool \"say\" {\n fallback {\n tool = \"tool:echo\"\n }\n}": "They are echo, where, and then echo again",
		"alias \"say\" {\n tool = \"echo\"\n}":               "",
		"alias \"say\" {\n tool = \"shout\"\n}":              "shout",
		"alias \"say\" {\n tool = \"jira:search\"\n}":        "jira:search",
		"principal \"a\" {\n tools = [\"e*\", \"where\"]\n}": "",
		"principal \"a\" {\n tools = [\"ekho\"]\n}":          `Unknown tool "ekho". Did you mean "echo"?`,
		"principal \"a\" {\n fields = [\"jira\"]\n}":         `Unknown field "jira"`,
		"endpoint \"x\" {\n tools = [\"ekho\"]\n}":           `Unknown tool "ekho"`,
		"endpoint \"x\" {\n core = [\"ekho\"]\n}":            `Unknown tool "ekho"`,
		"endpoint \"x\" {\n tools = [\"tool:echo\"]\n}":      "",
	} {
		t.Run(block, func(t *testing.T) {
			d := testbuilder.NewDir(t)
			d.Write("p", "")
			d.Configure(d.Plugin("p", "") + block + "\n")
			h := testbuilder.New(t, d)
			g := h.Load(t)
			wrong := g.Wrong()
			if want == "" && len(wrong) > 0 {
				t.Errorf("%q", wrong)
			}
			if want != "" {
				contains(t, "wrong names", wrong, want)
				contains(t, "problems", g.Problems, want)
			}
			// A trial refuses only names that are new.
			cfg, _ := h.Open(t)
			if err := h.Try(t.Context(), nil, cfg, g.Plugins); (err == nil) != (want == "") {
				t.Errorf("trial: %v", err)
			}
			if err := h.Try(t.Context(), cfg, cfg, g.Plugins); err != nil {
				t.Errorf("trial of the same configuration: %v", err)
			}
		})
	}
}

// TestNamesInOtherForms checks that aliases and the forms of commands have the effect of the full name.
func TestNamesInOtherForms(t *testing.T) {
	for _, name := range []string{"echo", "say", "tool:echo", "Shout"} {
		d := testbuilder.NewDir(t)
		d.Write("p", "mayCall=yes")
		d.Write("q", "")
		list := fmt.Sprintf(" = [%q]\n", name)
		d.Configure(d.Plugin("p", "calls"+list) + d.Plugin("q", `field = "q"`) + "alias \"say\" {\n tool = \"echo\"\n}\nalias \"Shout\" {\n tool = \"echo\"\n}\n" +
			fmt.Sprintf("tool %q {\n enabled = false\n max_concurrent = 3\n}\ntool \"where\" {\n fallback {\n tool = %q\n }\n}\n", name, name) +
			"principal \"a\" {\n tools" + list + " fields = [\"field:q\"]\n}\nendpoint \"x\" {\n tools" + list + " core" + list + "}\n")
		h := testbuilder.New(t, d)
		g := h.Load(t)
		if e := g.Registry.Find("echo"); e.Enabled || e.Limits.MaxConcurrent != 3 {
			t.Errorf("%s: %+v", name, e)
		}
		if e := g.Registry.Find("where"); e.Limits.Fallback != "echo" {
			t.Errorf("%s: the fallback of where is %q", name, e.Limits.Fallback)
		}
		a, x := g.Access.Principals[0], g.Endpoints[0]
		want := []string{"echo"}
		if len(g.Wrong()) > 0 || !slices.Equal(a.Tools, want) || !slices.Equal(a.Fields, []string{"q"}) || !slices.Equal(x.Tools, want) || !slices.Equal(x.Core, want) {
			t.Errorf("%s: %+v, %+v, %q", name, a, x, g.Wrong())
		}
		if !g.MayCall("p", "echo") || g.MayCall("p", "where") || g.MayCall("q", "echo") {
			t.Errorf("%s: plugins may call other tools", name)
		}
		if is := g.Config.Access.Principals[0].Tools[0]; is != name {
			t.Errorf("the configuration changed to %q", is)
		}
	}
}

// TestLostRestrictions checks that a block that would restrict a tool prevents a start if no tool has its name. Blocks
// of files that nobody trusts, and blocks about tools that can be missing, do not.
func TestLostRestrictions(t *testing.T) {
	for block, lost := range map[string]bool{
		"tool \"ekho\" {\n enabled = false\n}":                                                 true,
		"tool \"ekho\" {\n max_concurrent = 1\n}":                                              true,
		"tool \"e*\" {\n enabled = false\n}":                                                   true,
		"tool \"echo\" {}\ntool \"tool:echo\" {\n enabled = false\n}":                          true,
		"tool \"ekho\" {\n enabled = true\n}":                                                  false,
		"tool \"ekho\" {\n timeout = \"1s\"\n}":                                                false,
		"principal \"a\" {\n tools = [\"ekho\"]\n}":                                            false,
		"plugin \"dead\" {\n path = \"DIR/bin/dead\"\n}\ntool \"ekho\" {\n enabled = false\n}": false,
	} {
		d := testbuilder.NewDir(t)
		d.Write("p", "")
		d.Write("dead", "start=exit")
		d.Configure(d.Plugin("p", "") + strings.ReplaceAll(block, "DIR", d.Path) + "\n")
		h := testbuilder.New(t, d)
		cfg, launcher := h.Open(t)
		if _, err := h.Builder.Load(t.Context(), cfg, launcher); (err != nil) != lost || lost && !strings.Contains(err.Error(), "toolhost.hcl:") {
			t.Errorf("%s: %v", block, err)
		}
		if len(cfg.Plugins) > 1 {
			continue
		}
		off := config.Tool{Enabled: new(bool)}
		cfg.Tools = map[string]config.Tool{"ekho": off} // as the host keeps the restrictions of a file that changed
		if _, err := h.Builder.Load(t.Context(), cfg, launcher); err != nil {
			t.Errorf("a kept restriction: %v", err)
		}
		cfg.Tools = map[string]config.Tool{"echo": {MaxConcurrent: 3}, "tool:echo": off} // another block about the same tool
		if g, err := h.Builder.Load(t.Context(), cfg, launcher); err != nil || g.Registry.Find("echo").Enabled || g.Registry.Find("echo").Limits.MaxConcurrent != 3 {
			t.Errorf("two blocks: %v", err)
		}
	}
}

// TestSettingsOfTools checks that the configuration and the overrides at run time decide which tools can be called.
func TestSettingsOfTools(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "")
	d.Configure(d.Plugin("p", "") + "tool \"echo\" {\n enabled = false\n priority = 3\n}\ntool \"where\" {\n timeout = \"7s\"\n}\n")
	h := testbuilder.New(t, d)
	h.Overrides.AddAlias(config.Alias{Name: "whereabouts", Tool: "where"})
	g := h.Load(t)
	echo := g.Registry.Find("echo")
	if echo.Enabled || echo.Limits.Priority != 3 || g.Registry.Find("where").Enabled == false {
		t.Errorf("%+v", echo)
	}
	if slices.ContainsFunc(g.Callable(), func(d tool.Definition) bool { return d.Name == "echo" }) {
		t.Error("a disabled tool is callable")
	}
	if _, ok := g.Registry.Aliases()["whereabouts"]; !ok {
		t.Error("the alias is missing")
	}
	h.Overrides.SetEnabled([]string{"echo"}, true)
	h.Overrides.SetEnabled([]string{"where"}, false)
	again, _, err := h.Assemble(g.Config, g.Launcher, g.Plugins)
	if err != nil || !again.Registry.Find("echo").Enabled || again.Registry.Find("where").Enabled {
		t.Errorf("%v", err)
	}
	h.Overrides.ResetEnabled([]string{"echo", "where"})
	again, _, err = h.Assemble(g.Config, g.Launcher, g.Plugins)
	if err != nil || again.Registry.Find("echo").Enabled || !again.Registry.Find("where").Enabled {
		t.Errorf("%v", err)
	}
}

// TestHooks checks which hooks are reported because they cannot run, and which a trial refuses.
func TestHooks(t *testing.T) {
	for name, tc := range map[string]struct {
		block   string
		problem string
		trial   string
	}{
		"a plugin":               {`plugin = "p"`, "", ""},
		"a plugin without hooks": {`plugin = "none"`, "plugin none serves no hooks", "plugin none serves no hooks"},
		"a plugin that is gone":  {`plugin = "dead"`, "", "plugin dead is not loaded"},
		"a program":              {`command = ["/bin/true"]`, "", ""},
		"no program":             {`command = ["/nonexistent/hook"]`, "/nonexistent/hook", "/nonexistent/hook"},
		"a program that fails":   {`command = ["/bin/false"]`, "", "the program does not work"},
		"without a trial":        {"command = [\"/bin/false\"]\ntrial = false", "", ""},
		"it may fail":            {"command = [\"/bin/false\"]\non_failure = \"allow\"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := testbuilder.NewDir(t)
			d.Write("p", "")
			d.Write("none", "name=none mute=yes drop=echo")
			d.Write("dead", "start=exit")
			d.Configure(d.Plugin("p", "") + d.Plugin("none", `field = "none"`) + d.Plugin("dead", "") + "hook \"h\" {\n on = [\"before_call\"]\n" + tc.block + "\n}\n")
			h := testbuilder.New(t, d)
			g := h.Load(t)
			about := slices.DeleteFunc(slices.Clone(g.Problems), func(p string) bool { return !strings.Contains(p, `hook "h"`) })
			if (len(about) > 0) != (tc.problem != "") || tc.problem != "" && !strings.Contains(about[0], tc.problem) {
				t.Errorf("problems %q", about)
			}
			err := h.Try(t.Context(), nil, g.Config, g.Plugins)
			if (err == nil) != (tc.trial == "") || err != nil && !strings.Contains(err.Error(), tc.trial) {
				t.Errorf("trial: %v", err)
			}
			if err := h.Try(t.Context(), g.Config, g.Config, g.Plugins); err != nil {
				t.Errorf("trial of a hook that is in use: %v", err)
			}
		})
	}
}

// TestHookOfAPlugin checks that a hook reaches the plugin of the current generation, and fails with the reason
// otherwise.
func TestHookOfAPlugin(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "")
	d.Configure(d.Plugin("p", "") + "hook \"h\" {\n on = [\"before_call\"]\n plugin = \"p\"\n}\n")
	h := testbuilder.New(t, d)
	g := h.Load(t)
	all := g.Hooks.For(tool.HookBefore, "echo")
	if len(all) != 1 {
		t.Fatalf("%d hooks", len(all))
	}
	in := &tool.HookInput{Event: tool.HookBefore, Tool: "echo", Arguments: []byte(`{"text":"forbidden"}`)}
	if a, err := all[0].Handler.Hook(t.Context(), in); err != nil || a.Decision != tool.HookDeny {
		t.Errorf("%+v, %v", a, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all[0].Handler.Hook(ctx, in); err == nil {
		t.Error("a canceled hook succeeds")
	}
	h.Published = new(generation.Generation)
	if _, err := all[0].Handler.Hook(t.Context(), in); err == nil || err.Error() != "plugin p does not exist" {
		t.Errorf("%v", err)
	}
}

// TestCheckHooks checks the hooks of an embedding program.
func TestCheckHooks(t *testing.T) {
	good := hook.Hook{Name: "a", On: []tool.HookEvent{tool.HookBefore}, Handler: hookFunc(nil)}
	cfg := &config.Config{Hooks: []config.Hook{{Name: "configured"}}}
	if err := generation.CheckHooks([]hook.Hook{good}, cfg); err != nil {
		t.Error(err)
	}
	taken := good
	taken.Name = "configured"
	for name, own := range map[string][]hook.Hook{"twice": {good, good}, "taken": {taken}, "without events": {{Name: "b", Handler: hookFunc(nil)}}} {
		if err := generation.CheckHooks(own, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type hookFunc func()

func (hookFunc) Hook(context.Context, *tool.HookInput) (*tool.HookAnswer, error) { return nil, nil }

// TestTape checks where a tape can be, and which files of the workspace it omits.
func TestTape(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Configure("permissions {\n paths {\n  deny = [\"secret/**\"]\n }\n}\n")
	cfg, _ := testbuilder.New(t, d).Open(t)
	if _, err := generation.Tape(cfg, d.Workspace(), filepath.Join(d.Workspace(), "x.tape"), nil, 0); err == nil || !strings.Contains(err.Error(), "where tools can write") {
		t.Errorf("%v", err)
	}
	s, err := generation.Tape(cfg, d.Workspace(), filepath.Join(d.Path, "x.tape"), []string{"node_modules"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.Snapshot.MaxBytes != generation.DefaultTapeBytes || s.Snapshot.Exclude[0] != "node_modules" {
		t.Errorf("%+v", s.Snapshot)
	}
	for path, denied := range map[string]bool{"secret/key": true, "public": false} {
		path = filepath.Join(d.Workspace(), path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if s.Snapshot.Denied(path) != denied {
			t.Errorf("%s: denied %t", path, !denied)
		}
	}
}
