package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

type forecast struct {
	City string `json:"city"`
	Days []day  `json:"days"`
}

type day struct {
	High float64 `json:"high" jsonschema:"degrees"`
}

func (f forecast) String() string { return fmt.Sprintf("%s: %g", f.City, f.Days[0].High) }

type place struct {
	City string `json:"city"`
	Near struct {
		Within int `json:"within,omitempty" default:"5"`
	} `json:"near,omitzero" default:"{}"`
	Unit string `json:"unit,omitempty" deprecated:"degrees are Celsius"`
}

// kit returns a plugin that uses each feature of package sdk once.
func kit() sdk.Plugin {
	type seen struct{ Cities []string }
	type config struct {
		Key    string `json:"key"`
		Limits struct {
			Days int `json:"days,omitempty" default:"3"`
		} `json:"limits,omitzero" default:"{}"`
		Host string `json:"host,omitempty" default:"api.example"`
	}
	var configured config
	return sdk.Plugin{
		Name: "kit", Version: "1.0.0",
		Config: sdk.NewConfig(func(_ context.Context, c config, _ sdk.Setup) error {
			configured = c
			return nil
		}),
		Tools: []sdk.Tool{
			sdk.NewTool(sdk.Definition{Name: "plain", Description: "Data."}, func(_ context.Context, _ *sdk.Call, in place) (forecast, error) {
				if in.City == "" {
					return forecast{}, errors.New("no city")
				}
				return forecast{in.City, []day{{float64(in.Near.Within)}}}, nil
			}),
			sdk.NewTool(sdk.Definition{Name: "reply", Description: "Data and more."}, func(_ context.Context, call *sdk.Call, in place) (*sdk.Reply[map[string]int], error) {
				state, err := sdk.SessionState[seen](call)
				if err != nil {
					return nil, err
				}
				state.Cities = append(state.Cities, in.City)
				r := &sdk.Reply[map[string]int]{Value: map[string]int{"n": len(state.Cities)}, Result: sdk.Result{Title: in.City}}
				return r, sdk.SetSessionState(&r.Result, state)
			}),
			sdk.NewTool(sdk.Definition{Name: "config", Description: "The configuration.", Traits: sdk.Traits{ReadOnly: true}}, func(_ context.Context, _ *sdk.Call, _ struct{}) (*sdk.Result, error) {
				return &sdk.Result{Output: string(sdk.Data(configured)), SessionState: []byte(`{"Cities":["ignored"]}`)}, nil
			}),
			sdk.NewTool(sdk.Definition{Name: "panic", Description: "A bug."}, func(context.Context, *sdk.Call, struct{}) (*sdk.Result, error) {
				panic("a bug of " + strings.Repeat("x", 3))
			}),
			sdk.NewTool(sdk.Definition{Name: "work", Description: "Progress, another tool, and a value that stays.", Deprecated: "Use reply."}, work),
		},
	}
}

func work(ctx context.Context, call *sdk.Call, in struct {
	File string `json:"file"`
},
) (*sdk.Result, error) {
	call.ProgressOf("reading", 1, 4)
	res, err := call.CallTool(ctx, "read", map[string]string{"file_path": in.File})
	if err != nil {
		return nil, err
	}
	if res.Error != nil {
		return nil, res.Error
	}
	s, err := call.Store()
	if err != nil {
		return nil, err
	}
	var n int
	err = s.Update("runs", func(old json.RawMessage) (any, error) {
		if old != nil {
			return n, json.Unmarshal(old, &n)
		}
		n++
		return n, nil
	})
	return &sdk.Result{Output: fmt.Sprint(res.Output, n)}, err
}

func TestTypedOutput(t *testing.T) {
	h := tooltest.New(t, kit(), t.TempDir())
	out, data, _ := tooltest.Do[forecast](h, "plain", map[string]any{"city": "Oslo"})
	if out != "Oslo: 5" || data.City != "Oslo" || data.Days[0].High != 5 { // 5 is the default in a nested object
		t.Errorf("%q %+v", out, data)
	}
	h.Refuses("plain", map[string]any{"city": ""}, tool.ExecutionFailed, "no city")
	if res := h.Call("plain", map[string]any{"city": ""}); res.Data != nil {
		t.Errorf("a failed call has the data %s", res.Data)
	}
	p, err := sdk.New(kit())
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`"high"`, `"type":"object"`, "", "", ""} {
		if got := string(d.Tools[i].Output); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: the output schema %s", d.Tools[i].Name, got)
		}
	}
	if s := string(d.Tools[0].Input); !strings.Contains(s, `"deprecated":true`) || !strings.Contains(s, "degrees are Celsius") || d.Tools[4].Deprecated == "" {
		t.Error(s)
	}
	_, err = sdk.New(sdk.Plugin{Name: "p", Version: "1.0.0", Tools: []sdk.Tool{
		sdk.NewTool(sdk.Definition{Name: "list", Description: "A list."}, func(context.Context, *sdk.Call, struct{}) ([]string, error) { return nil, nil }),
	}})
	if err == nil || !strings.Contains(err.Error(), "[]string") {
		t.Errorf("a list as data: %v", err)
	}
}

func TestTypedSessionState(t *testing.T) {
	h := tooltest.New(t, kit(), t.TempDir())
	for want := 1; want <= 2; want++ {
		_, data, res := tooltest.Do[map[string]int](h, "reply", map[string]any{"city": "Oslo"})
		if data["n"] != want || res.Title != "Oslo" {
			t.Errorf("%v %q", data, res.Title)
		}
		tooltest.Do[any](h, "config", nil) // a read-only tool does not change the state
	}
	if err := sdk.SetSessionState(new(sdk.Result), bytes.Repeat([]byte("x"), 1<<20)); err == nil {
		t.Error("a state above the limit is accepted")
	}
}

func TestConfigurationDefaults(t *testing.T) {
	h := tooltest.New(t, kit(), t.TempDir())
	if d := h.Configure(tool.Configuration{Config: []byte(`{"key":"k"}`)}); len(d) > 0 {
		t.Fatal(d)
	}
	if out, _, _ := tooltest.Do[any](h, "config", nil); out != `{"key":"k","limits":{"days":3},"host":"api.example"}` {
		t.Error(out)
	}
	h = tooltest.New(t, kit(), t.TempDir())
	for config, path := range map[string]string{`{}`: "key", `{"key":"k","hots":"x"}`: "hots", `{"key":1}`: "key", `[`: ""} {
		d := h.Configure(tool.Configuration{Config: []byte(config)})
		if len(d) != 1 || strings.Join(d[0].Path, ".") != path {
			t.Errorf("%s: %+v", config, d)
		}
	}
}

func TestStackOfAPanic(t *testing.T) {
	res := tooltest.New(t, kit(), t.TempDir()).Call("panic", nil)
	var data struct{ Panic, Stack string }
	if err := json.Unmarshal(res.Error.Data, &data); err != nil {
		t.Fatal(err)
	}
	if data.Panic != "a bug of xxx" || !strings.HasPrefix(data.Stack, "panic(") || !strings.Contains(data.Stack, "kit_test.go:") {
		t.Errorf("%+v", data)
	}
}

func TestRecordedByTooltest(t *testing.T) {
	h := tooltest.New(t, kit(), t.TempDir())
	h.Configure(tool.Configuration{Config: []byte(`{"key":"k"}`), StateDir: t.TempDir()})
	h.Refuses("work", map[string]any{"file": "a"}, tool.PermissionDenied, "read")
	h.Tools = func(c tool.ToolCall) *tool.Result {
		if string(c.Arguments) != `{"file_path":"a"}` {
			return tool.Failed(tool.Errorf(tool.NotFound, "no file").WithCode(7))
		}
		return &tool.Result{Output: "text"}
	}
	for range 2 {
		if out, _, _ := tooltest.Do[any](h, "work", map[string]any{"file": "a"}); out != "text1" {
			t.Error(out)
		}
	}
	if res := h.Call("work", map[string]any{"file": "b"}); res.Error == nil || res.Error.Kind != tool.NotFound || res.Error.Code != 7 {
		t.Errorf("%+v", res.Error)
	}
	if p := h.Progress(); len(p) != 4 || p[0].Done != 1 || p[0].Total != 4 || p[0].Title != "reading" {
		t.Errorf("%+v", p)
	}
	if a := h.Asks(); len(a) != 4 || a[1].Call.Tool != "read" {
		t.Errorf("%+v", a)
	}
}
