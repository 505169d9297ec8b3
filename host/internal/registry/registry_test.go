package registry_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/sdk/tool"
)

func def(name string) tool.Definition {
	return tool.Definition{Name: name, Description: "does " + name, Input: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}
}

func describe(defs ...tool.Definition) *tool.Description {
	return &tool.Description{Name: "p", Version: "1.0.0", Tools: defs}
}

func asItSays(string) registry.Settings { return registry.Settings{} }

// TestBadToolsDoNotTakeOthersDown checks that an invalid tool does not prevent the registration of other tools.
func TestBadToolsDoNotTakeOthersDown(t *testing.T) {
	r := registry.New()
	noDescription, badSchema, missing := def("mute"), def("broken"), def("missing")
	noDescription.Description = " "
	badSchema.Input = json.RawMessage(`{"type":`)
	missing.Input = json.RawMessage(`{"type":"object","required":["x"]}`)
	err := r.Add("p", "", describe(def("one"), def(""), noDescription, badSchema, missing, def("Bad Name"), def("help"), def("tool"), def("one"), def("two")), false, asItSays)
	if err == nil {
		t.Fatal("nothing is reported")
	}
	for _, want := range []string{
		`tool "" of plugin p is not registered: the name is empty`, `tool "mute" of plugin p is not registered: the description is empty`, `tool "broken" of plugin p`,
		`required property "x" is not defined`, `invalid name "Bad Name"`, `tool "help" of plugin p is not registered: the name is reserved`, `"tool" of plugin p`, "plugin p declares one more than once; only the first",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q:\n%v", want, err)
		}
	}
	if got := r.AgentNames(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%v", got)
	}
	if len(r.All()) != 2 {
		t.Errorf("%d entries", len(r.All()))
	}
}

// TestCheckedBefore checks that the registry parses the schema of a checked tool only on first use. Only the first use
// must report an invalid schema.
func TestCheckedBefore(t *testing.T) {
	r := registry.New()
	damaged := def("damaged")
	damaged.Input = json.RawMessage(`{"type":`)
	if err := r.Add("p", "", describe(def("whole"), damaged), true, asItSays); err != nil {
		t.Fatal(err)
	}
	if e, err := r.Enabled("", "whole"); err != nil || e.Schema().Param("a") == nil {
		t.Errorf("%+v %v", e, err)
	}
	if _, err := r.Enabled("", "damaged"); err == nil || tool.AsError(err).Kind != tool.Internal || !strings.Contains(err.Error(), "schema of damaged is not valid") {
		t.Error(err)
	}
	if sig, ok := r.Agent("damaged"); !ok || sig.Schema.Param("a") != nil {
		t.Errorf("%+v", sig)
	}
	// An optional alias must exist only if the tool has all parameters of the alias.
	for name, to := range map[string]string{"fits": "a", "misfit": "b"} {
		if err := r.AddAlias(registry.Alias{Name: name, Tool: "whole", Habit: registry.Habit{Params: map[string]string{"x": to}}, Optional: true}); err != nil {
			t.Error(err)
		}
		if _, _, _, ok := r.Alias(name); ok != (name == "fits") {
			t.Errorf("%s: %v", name, ok)
		}
	}
	if err := r.AddAlias(registry.Alias{Name: "wrong", Tool: "whole", Habit: registry.Habit{Params: map[string]string{"x": "b"}}}); err == nil {
		t.Error("an operator's slip is not told")
	}
}

func TestDuplicatesAndNamespaces(t *testing.T) {
	r := registry.New()
	if err := r.Add("first", "", describe(def("read"), def("list")), false, asItSays); err != nil {
		t.Fatal(err)
	}
	err := r.Add("second", "", describe(def("list"), def("read"), def("own")), false, asItSays)
	if err == nil || !strings.Contains(err.Error(), "plugin first already serves list, read, so plugin second cannot use the same names; give one of the two plugins its own namespace") {
		t.Error(err)
	}
	if e := r.Lookup("", "read"); e.Plugin != "first" {
		t.Errorf("the second took the name: %+v", e)
	}
	if err := r.Add("third", "jira", describe(def("read"), def("help")), false, asItSays); err != nil {
		t.Errorf("a namespace of its own: %v", err)
	}
	if e := r.Lookup("jira", "read"); e == nil || e.FullName() != "jira:read" || e.Plugin != "third" {
		t.Errorf("%+v", e)
	}
	if !slices.Equal(r.Namespaces(), []string{"jira"}) || !slices.Equal(r.FieldNames("jira"), []string{"read", "help"}) || !slices.Equal(r.AgentNames(), []string{"read", "list", "own"}) {
		t.Errorf("%v %v %v", r.Namespaces(), r.FieldNames("jira"), r.AgentNames())
	}
	for _, k := range [][2]string{{"", "none"}, {"jira", "list"}, {"none", "read"}, {"", "jira:none"}, {"", ""}} {
		if _, err := r.Enabled(k[0], k[1]); err == nil || tool.AsError(err).Kind != tool.NotFound {
			t.Errorf("%v: %v", k, err)
		}
	}
	if _, ok := r.Field("", "own"); !ok {
		t.Error("own has no signature")
	}
}

func TestSettings(t *testing.T) {
	on, off := true, false
	slow, own, disabled := def("slow"), def("own"), def("disabled")
	slow.DefaultTimeout, own.DefaultTimeout, disabled.Traits.Disabled = time.Minute, -1, true
	set := map[string]registry.Settings{"ns:slow": {Timeout: time.Second}, "ns:off": {Enabled: &off}, "ns:disabled2": {Enabled: &on}}
	disabled2 := disabled
	disabled2.Name = "disabled2"
	r := registry.New()
	if err := r.Add("p", "ns", describe(slow, own, disabled, disabled2, def("off")), false, func(name string) registry.Settings { return set[name] }); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		enabled bool
		timeout time.Duration
	}{"slow": {true, time.Second}, "own": {true, -1}, "disabled": {false, 0}, "disabled2": {true, 0}, "off": {false, 0}} {
		e := r.Lookup("ns", name)
		if e.Enabled != want.enabled || e.Timeout != want.timeout {
			t.Errorf("%s: %+v", name, e)
		}
		_, err := r.Enabled("ns", name)
		if (err == nil) != want.enabled || err != nil && (tool.AsError(err).Kind != tool.PermissionDenied || !strings.Contains(err.Error(), fmt.Sprintf("tool %q { enabled = true }", "ns:"+name))) {
			t.Errorf("%s: %v", name, err)
		}
		// The registry must still contain the name of a disabled tool. Otherwise the shell would run the name as a
		// command.
		if _, ok := r.Field("ns", name); !ok {
			t.Errorf("%s is not known", name)
		}
	}
	if got := r.FieldNames("ns"); !slices.Equal(got, []string{"slow", "own", "disabled2"}) {
		t.Errorf("%v", got)
	}
}

// TestReadersWhileAdding checks that concurrent readers always receive a consistent snapshot.
func TestReadersWhileAdding(t *testing.T) {
	r := registry.New()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for i, e := range r.All() {
					if e.Definition.Name != fmt.Sprint("t", i) || r.Lookup("", e.Definition.Name) != e {
						t.Errorf("entry %d is %s", i, e.Definition.Name)
					}
				}
			}
		})
	}
	for i := range 200 {
		if err := r.Add("p", "", describe(def(fmt.Sprint("t", i))), false, asItSays); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

// TestAddsAtOnce checks that concurrent calls of Add do not lose tools.
func TestAddsAtOnce(t *testing.T) {
	r := registry.New()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 25 {
				if err := r.Add(fmt.Sprint("p", g), "", describe(def(fmt.Sprintf("t%d-%d", g, i))), false, asItSays); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(r.All()); n != 200 {
		t.Errorf("%d of 200 tools", n)
	}
}

// TestManyRefusals checks that many invalid tools of a plugin are one error with the first reasons.
func TestManyRefusals(t *testing.T) {
	var tools []tool.Definition
	for i := range 24 {
		tools = append(tools, tool.Definition{Name: fmt.Sprintf("bad_%d", i), Description: "x", Input: json.RawMessage(`{"type":"string"}`)})
	}
	err := registry.New().Add("p", "f", &tool.Description{Tools: tools}, false, func(string) registry.Settings { return registry.Settings{} })
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if !strings.HasPrefix(text, `24 tools of plugin p are not registered; "bad_0": the input schema is not valid: `) || !strings.Contains(text, `"bad_2"`) || strings.Contains(text, `"bad_3"`) ||
		!strings.HasSuffix(text, "; toolhost status lists all of them") || strings.Contains(text, "\n") {
		t.Error(text)
	}
}
