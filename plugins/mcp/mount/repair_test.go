package mount

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

func TestRepair(t *testing.T) {
	for _, tc := range []struct{ in, want, dropped string }{
		{`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`, `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`, "[]"},
		{`{"type":"object","properties":{"author":{"type":"string","default":null},"a":{"type":"integer","default":1}},"required":["a"]}`,
			`{"type":"object","properties":{"author":{"type":"string"},"a":{"type":"integer","default":1}},"required":["a"]}`, "[author.default]"},
		{`{"type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true},"m":{"type":"number","maximum":9,"exclusiveMaximum":false}}}`,
			`{"type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":0},"m":{"type":"number","maximum":9}}}`, "[m.exclusiveMaximum]"},
		{`{"type":"object","properties":{"n":{"type":"number","exclusiveMinimum":true}}}`, `{"type":"object","properties":{"n":{"type":"number"}}}`, "[n.exclusiveMinimum]"},
		{`{"properties":{"x":{"type":"string"}}}`, `{"properties":{"x":{"type":"string"}},"type":"object"}`, "[]"},
		{`{"type":["object","null"]}`, `{"type":"object"}`, "[]"},
		{`{"type":"object","properties":{"x":{"type":"string","required":true},"y":{"type":"any"}},"required":["x","more"]}`,
			`{"type":"object","properties":{"x":{"type":"string"},"y":{},"more":{}},"required":["x","more"]}`, "[x.required y.type]"},
		{`{"type":"object","properties":{"x":{"type":"string"}},"required":["x","gone"],"additionalProperties":false}`,
			`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}`, "[]"},
		{`{"type":"object","properties":{"x":{"oneOf":[{"type":"string","pattern":"(?=a)b"},{"type":"string"}]},"y":{"not":{"$ref":"#/$defs/A"}}},"$defs":{"A":{"pattern":"(?=a)b"}}}`,
			`{"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"type":"string"}]},"y":{}},"$defs":{"A":{}}}`, "[oneOf.pattern x.oneOf y.not]"},
		{`{"type":"object","properties":{"x":{"oneOf":[{"type":"string","default":1},{"type":"integer"}]}}}`,
			`{"type":"object","properties":{"x":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`, "[oneOf.default]"},
		{`{"type":"object","properties":{"x":{"$ref":"#/definitions/A"},"y":{"type":"string"}},"definitions":{"A":{"$ref":"#/definitions/A"}}}`,
			`{"type":"object","properties":{"x":{},"y":{"type":"string"}}}`, "[definitions x.$ref]"},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"x":{"minimum":0,"exclusiveMinimum":true}}}`,
			`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"x":{"minimum":0,"exclusiveMinimum":0}}}`, "[]"},
		{`{"type":"object","properties":{"x":{"type":"string","pattern":"(?=a)b"},"y":null}}`, `{"type":"object","properties":{"x":{"type":"string"},"y":{}}}`, "[x.pattern]"},
		{`{"type":"object","properties":{"x":{"$ref":"#/$defs/A"},"z":{"$ref":"#/$defs/None"}},"$defs":{"A":{"type":"object","properties":{"p":{"type":"string","default":null},"q":{"$ref":"#/$defs/A"}}}}}`,
			`{"type":"object","properties":{"x":{"$ref":"#/$defs/A"},"z":{}},"$defs":{"A":{"type":"object","properties":{"p":{"type":"string"},"q":{"$ref":"#/$defs/A"}}}}}`, "[z.$ref]"},
		{`{"type":"object","properties":{"x":{"anyOf":[{"type":"string","default":null},{"type":"null"}],"default":null}}}`,
			`{"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}}}`, "[anyOf.default]"},
		{`{"type":"string"}`, `{"type":"string"}`, "[]"},
	} {
		out, dropped := repair(json.RawMessage(tc.in))
		if string(out) != tc.want || fmt.Sprint(dropped) != tc.dropped {
			t.Errorf("%s:\n%s %v, want\n%s %s", tc.in, out, dropped, tc.want, tc.dropped)
		}
		if _, err := tool.ParseSchema(out); err != nil && !strings.Contains(tc.in, `{"type":"string"}`) {
			t.Errorf("%s: %v", out, err)
		}
	}
}

// TestRepairIsBounded checks that a large invalid schema costs a limited number of tests and keeps its parameters.
func TestRepairIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := range 3000 {
		fmt.Fprintf(&b, `"p%d":{"type":"string","default":null},`, i)
	}
	b.WriteString(`"last":{"type":"string","description":"The last."}},"required":["last"]}`)
	out, dropped := repair(json.RawMessage(b.String()))
	s, err := tool.ParseSchema(out)
	if err != nil || len(s.Params()) != 3001 || s.Params()[0].Name != "last" || s.Params()[0].Description != "The last." || len(dropped) > maxProbes {
		t.Errorf("%v: %d dropped", err, len(dropped))
	}
}
