package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// TestDiscover checks a plugin that discovers its tools. Before the configuration, its description contains the
// capability for discovery, but no tools. Afterwards, its description contains the tools of the last discovery.
func TestDiscover(t *testing.T) {
	names, failure := []string{"one", "two"}, error(nil)
	asked := 0
	p, err := sdk.New(sdk.Plugin{Name: "p", Version: "1.0.0",
		Config: sdk.NewConfig(func(_ context.Context, c struct {
			Fine bool `json:"fine"`
		}, _ sdk.Setup) error {
			if !c.Fine {
				return errors.New("not fine")
			}
			return nil
		}),
		Discover: func(context.Context) ([]sdk.Tool, error) {
			asked++
			var out []sdk.Tool
			for _, n := range names {
				out = append(out, sdk.NewTool(sdk.Definition{Name: n, Description: "A tool.", Input: json.RawMessage(`{"type":"object"}`)},
					func(_ context.Context, _ *sdk.Call, args json.RawMessage) (*sdk.Result, error) {
						return sdk.Text(n + string(args)), nil
					}))
			}
			return out, failure
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	tools := func() (out []string) {
		d, err := p.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(d.Capabilities, tool.CapabilityDiscovery) {
			t.Errorf("capabilities: %v", d.Capabilities)
		}
		for _, d := range d.Tools {
			out = append(out, d.Name)
		}
		return out
	}
	call := func(name string) *tool.Result {
		return p.Call(t.Context(), &tool.Call{Tool: name, Arguments: json.RawMessage(`{"a":1}`)}, nil)
	}
	for _, config := range []string{"", `{"fine":false}`} {
		if config != "" {
			if d, err := p.Configure(t.Context(), tool.Configuration{Config: json.RawMessage(config)}); err != nil || len(d) != 1 {
				t.Fatal(d, err)
			}
		}
		if got := tools(); len(got) != 0 || asked != 0 {
			t.Errorf("after the configuration %q: %v, asked %d times", config, got, asked)
		}
	}
	if d, err := p.Configure(t.Context(), tool.Configuration{Config: json.RawMessage(`{"fine":true}`)}); err != nil || len(d) > 0 {
		t.Fatal(d, err)
	}
	if got := tools(); !slices.Equal(got, names) {
		t.Errorf("got %v", got)
	}
	if res := call("two"); res.Output != `two{"a":1}` {
		t.Errorf("%+v", res)
	}
	names = []string{"one", "three"}
	tools()
	if res := call("two"); res.Error == nil || res.Error.Kind != tool.NotFound {
		t.Errorf("a tool that is gone: %+v", res)
	}
	if res := call("three"); !res.Success() {
		t.Errorf("a new tool: %+v", res)
	}
	failure = errors.New("no answer")
	if _, err := p.Describe(t.Context()); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if res := call("three"); !res.Success() {
		t.Errorf("after a failure: %+v", res)
	}
}
