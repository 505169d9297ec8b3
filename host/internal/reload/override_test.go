package reload

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/testbuilder"
)

// TestSetEnabled checks that tools can be disabled and enabled at run time, and that a reload keeps this.
func TestSetEnabled(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	f.Configure(f.Plugin("p", "") + "tool \"fail\" {\n enabled = false\n}\n")
	f.reload(Options{})
	var states []registry.State
	f.States().Subscribe(func(tr registry.Transition) {
		if tr.Tool == "echo" {
			states = append(states, tr.To)
		}
	})
	enabled := func(name string) bool { return f.Current().Registry.Find(name).Enabled }
	set := func(name string, on bool) {
		t.Helper()
		if err := f.SetEnabled(name, on); err != nil {
			t.Error(err)
		}
	}
	set("echo", false)
	if enabled("echo") || !enabled("where") {
		t.Error("echo is enabled, or where is not")
	}
	if res := f.call("echo", `{"text":"x"}`); res.Error == nil {
		t.Error("a disabled tool can be called")
	}
	f.Write("p", "version=2.0.0")
	f.reload(Options{})
	if enabled("echo") {
		t.Error("a reload enables the tool")
	}
	set("echo", true)
	if !enabled("echo") {
		t.Error("echo is disabled")
	}
	set("p", false)
	if enabled("echo") || enabled("where") {
		t.Error("tools of a disabled plugin are enabled")
	}
	set("p", true) // it only takes back what was disabled at run time
	if !enabled("echo") || !enabled("where") || enabled("fail") {
		t.Error("the tools do not follow the configuration again")
	}
	set("fail", true)
	if !enabled("fail") {
		t.Error("a tool that the configuration disables cannot be enabled")
	}
	if err := f.SetEnabled("unknown", true); err == nil {
		t.Error("an unknown tool was enabled")
	}
	if want := []registry.State{registry.Disabled, registry.Ready, registry.Disabled, registry.Ready}; len(states) != len(want) {
		t.Errorf("states %v, want %v", states, want)
	}
}

// TestDisabledDuringACall checks that a running call continues if its tool is disabled.
func TestDisabledDuringACall(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	held := f.hold("g")
	if err := f.SetEnabled("hold", false); err != nil {
		t.Fatal(err)
	}
	f.Programs.Gate("g").Open()
	if res := <-held; res.Error != nil {
		t.Error(res.Error)
	}
}

// TestAliasesAtRunTime checks that an alias works from its addition to its removal, also after a reload.
func TestAliasesAtRunTime(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	if err := f.AddAlias("say", "echo", map[string]string{"words": "text"}); err != nil {
		t.Fatal(err)
	}
	f.Write("p", "version=2.0.0")
	f.reload(Options{})
	if res := f.call("say", `{"words":"hello"}`); res.Error != nil || res.Output != "hello" {
		t.Errorf("%q, %v", res.Output, res.Error)
	}
	for name, err := range map[string]error{
		"taken": f.AddAlias("say", "where", nil), "unknown tool": f.AddAlias("shout", "nothing", nil), "bad name": f.AddAlias("a b", "echo", nil),
		"unknown namespace": f.AddAlias("shout", "jira:search", nil), "removal of an unknown one": f.RemoveAlias("shout"),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := f.RemoveAlias("say"); err != nil {
		t.Error(err)
	}
	if res := f.call("say", `{"words":"hello"}`); res.Error == nil {
		t.Error("the alias works after its removal")
	}
}

// TestRegister checks that a plugin can be registered and unregistered at run time.
func TestRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0", "")
		f.version()
		f.Write("q", "name=q version=7.0.0")
		f.Write("bad", "start=exit")
		q := Plugin{Name: "q", Path: f.Program("q"), Field: "q", DependsOn: []string{"p"}, Config: []byte(`{"greeting":"hi"}`)}
		if err := f.Register(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		says(t, "where", f.call("q:where", "{}").Output, "version=7.0.0", "greeting=hi")
		for name, tc := range map[string]struct {
			plugin Plugin
			want   string
		}{
			"taken":              {q, "exists already"},
			"it ends":            {Plugin{Name: "bad", Path: f.Program("bad")}, "exit status 3"},
			"unknown dependency": {Plugin{Name: "r", Path: f.Program("q"), DependsOn: []string{"s"}}, "which does not exist"},
			"bad name":           {Plugin{Name: "a b", Path: f.Program("q")}, "a b"},
		} {
			if err := f.Register(t.Context(), tc.plugin); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if f.Current().Plugin("bad") != nil || len(f.Current().Plugins) != 2 {
			t.Error("a plugin that was refused is there")
		}
		f.Configure(f.Plugin("p", "") + "host {\n timeout = \"9s\"\n}\n")
		if r := f.reload(Options{}); r.Refused() || f.Current().Plugin("q") == nil {
			t.Errorf("a reload removed the plugin: %+v", r)
		}
		if err := f.Unregister(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), "plugin q depends on this plugin") {
			t.Errorf("%v", err)
		}
		if err := f.Unregister(t.Context(), "unknown"); err == nil {
			t.Error("an unknown plugin was unregistered")
		}
		for _, name := range []string{"q", "p"} {
			if err := f.Unregister(t.Context(), name); err != nil || f.Current().Plugin(name) != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		f.reload(Options{})
		if f.Current().Plugin("p") != nil {
			t.Error("a reload brought an unregistered plugin back")
		}
		synctest.Wait()
		if n := len(f.Programs.Running()); n != 0 {
			t.Errorf("%d programs run", n)
		}
	})
}

// TestDiscoveredTools checks that a tool that a plugin discovers at run time can be called.
func TestDiscoveredTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "discovers=yes", "")
		updates := make(chan Update, 1)
		f.Updates().Subscribe(func(u Update) { updates <- u })
		if res := f.call("grow", `{"name":"new"}`); res.Error != nil {
			t.Fatal(res.Error)
		}
		if u := <-updates; len(u.Tools) != 1 || u.Tools[0].Tool != "new" {
			t.Errorf("%+v", u)
		}
		if res := f.call("new", `{"text":"x"}`); res.Error != nil {
			t.Error(res.Error)
		}
		synctest.Wait()
	})
}

// TestTakenNames checks that neither a new version of a plugin nor a tool that it discovers takes the name or the role
// of a tool of another plugin, although the plugin precedes the other one in the configuration. What the operator
// changes in the configuration can take both.
func TestTakenNames(t *testing.T) {
	for name, tc := range map[string]struct {
		words string            // the new version of the plugin
		grow  string            // or the name of a tool that it discovers
		edit  func(f *fixture)  // or a change of the configuration
		want  map[string]string // plugins by tool
		role  string            // the tool with the role "read"
	}{
		"nothing":           {want: map[string]string{"peek": "q"}, role: "peek"},
		"a new name":        {words: "add=other", want: map[string]string{"peek": "q", "other": "p"}, role: "peek"},
		"the name":          {words: "add=peek", want: map[string]string{"peek": "q"}, role: "peek"},
		"the role":          {words: "add=other role=read", want: map[string]string{"peek": "q", "other": "p"}, role: "peek"},
		"both":              {words: "add=peek role=read", want: map[string]string{"peek": "q"}, role: "peek"},
		"a discovered name": {grow: "peek", want: map[string]string{"peek": "q"}, role: "peek"},
		"a discovered role": {grow: "read", want: map[string]string{"peek": "q", "read": "p"}, role: "peek"}, // the role of its name
		"a removed plugin": {edit: func(f *fixture) {
			f.Write("p", "only=yes discovers=yes add=peek role=read")
			f.Configure(f.Plugin("p", ""))
		}, want: map[string]string{"peek": "p"}, role: "peek"},
		"a new plugin": {edit: func(f *fixture) {
			f.Write("new", "only=yes add=other role=read")
			f.Configure(f.Plugin("new", "") + f.Plugin("p", "") + f.Plugin("q", ""))
		}, want: map[string]string{"peek": "q", "other": "new"}, role: "other"},
		"another order": {edit: func(f *fixture) {
			f.Write("p", "only=yes discovers=yes add=other role=read")
			f.Configure(f.Plugin("q", "") + f.Plugin("p", "")) // then both as before
			f.reload(Options{})
			f.Configure(f.Plugin("p", "") + f.Plugin("q", ""))
		}, want: map[string]string{"peek": "q", "other": "p"}, role: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := testbuilder.NewDir(t)
				d.Write("p", "only=yes discovers=yes")
				d.Write("q", "only=yes add=peek role=read")
				d.Configure(d.Plugin("p", "") + d.Plugin("q", ""))
				f := start(t, d)
				switch {
				case tc.grow != "":
					if res := f.call("grow", fmt.Sprintf(`{"name":%q}`, tc.grow)); res.Error != nil {
						t.Fatal(res.Error)
					}
					synctest.Wait()
				case tc.words != "":
					f.Write("p", "only=yes discovers=yes "+tc.words)
				case tc.edit != nil:
					tc.edit(f)
				}
				if tc.grow == "" {
					f.reload(Options{AcceptChanges: true})
				}
				r := f.Current().Registry
				got := make(map[string]string)
				for _, e := range r.All() {
					if got[e.Definition.Name] = e.Plugin; e.Definition.Name == "grow" {
						delete(got, "grow")
					}
				}
				if !maps.Equal(got, tc.want) {
					t.Errorf("plugins by tool: %v, want %v", got, tc.want)
				}
				if got := r.RoleName(tool.RoleRead); got != tc.role {
					t.Errorf("%q has the role, want %q", got, tc.role)
				}
				synctest.Wait()
			})
		})
	}
}

// TestHooksOfTools checks that hooks are notified of new and removed tools.
func TestHooksOfTools(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	other, cfg := prepared(t, f.Dir)
	var mu sync.Mutex
	var got []string
	other.Builder.Options.Hooks = []hook.Hook{{Name: "h", On: []tool.HookEvent{tool.HookRegister, tool.HookUnregister}, Handler: hookFunc(func(in *tool.HookInput) {
		mu.Lock()
		defer mu.Unlock()
		if in.Tool == "extra" || in.Tool == "echo" {
			got = append(got, string(in.Event)+" "+in.Tool)
		}
	})}}
	launcher, err := other.Builder.Launcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(t.Context(), cfg, launcher); err != nil {
		t.Fatal(err)
	}
	f.Write("p", "version=2.0.0 add=extra")
	other.reload(Options{})
	f.Write("p", "version=3.0.0 drop=echo add=extra")
	other.reload(Options{AcceptChanges: true})
	other.Close()
	other.CloseHooks()
	mu.Lock()
	defer mu.Unlock()
	if want := "register echo,register extra,unregister echo"; strings.Join(got, ",") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

type hookFunc func(*tool.HookInput)

func (f hookFunc) Hook(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	f(in)
	return nil, nil
}
