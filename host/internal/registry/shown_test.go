package registry_test

import (
	"encoding/json"
	"testing"

	"toolhost.dev/host/internal/registry"
)

// TestHiddenParameters checks that a hidden parameter is accepted and not shown, and that the other parts of a
// definition keep their bytes and order.
func TestHiddenParameters(t *testing.T) {
	for input, want := range map[string]string{
		`{"type":"object", "properties":{"b":{"type":"string"},"h":{"type":"string","x-toolhost-hidden":true},"a":{"enum":[ 1 ]}}}`:     `{"type":"object","properties":{"b":{"type":"string"},"a":{"enum":[ 1 ]}}}`,
		`{"type":"object","properties":{"h":{"x-toolhost-hidden":true}}}`:                                                               `{"type":"object","properties":{}}`,
		`{"type":"object","properties":{"x-toolhost-hidden":{"type":"string"},"h":{"type":"string","x-toolhost-hidden":false}}}`:        "",
		`{"type":"object","properties":{"o":{"type":"object","properties":{"h":{"type":"string","description":"x-toolhost-hidden"}}}}}`: "",
	} {
		if want == "" {
			want = input
		}
		r, d := registry.New(), def("t")
		d.Input = json.RawMessage(input)
		if err := r.Add("p", "", describe(d), false, asItSays); err != nil {
			t.Fatal(err)
		}
		e := r.Find("t")
		if got := string(e.Definition.Input); got != want {
			t.Errorf("%s is shown as %s", input, got)
		}
		shown := len(e.Shown())
		for _, p := range e.Schema().Params() {
			if p.Hidden {
				shown++
			}
		}
		if all := len(e.Schema().Params()); shown != all || all == 0 {
			t.Errorf("%s: %d of %d parameters", input, shown, all)
		}
		if _, bad := e.Schema().Check(map[string]json.RawMessage{"h": json.RawMessage(`"x"`)}); e.Schema().Param("h") != nil && len(bad) > 0 {
			t.Errorf("%s: a hidden parameter is refused: %v", input, bad)
		}
	}
}
