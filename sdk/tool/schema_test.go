package tool_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

func parse(t *testing.T, schema string) *tool.Schema {
	t.Helper()
	s, err := tool.ParseSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func object(t *testing.T, text string) map[string]json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParseSchemaRefuses(t *testing.T) {
	for _, tc := range []struct{ schema, want string }{
		{``, "the schema is empty"},
		{`  `, "the schema is empty"},
		{`{`, "not a JSON Schema"},
		{`[]`, "not a JSON Schema"},
		{`"x"`, "not a JSON Schema"},
		{`true`, `the schema has the type ""`},
		{`{}`, `must be "object"`},
		{`{"type":"array"}`, `the schema has the type "array"`},
		{`{"type":["object","null"]}`, `must be "object"`},
		{`{"type":"object","required":["a"]}`, `required property "a" is not defined`},
		{`{"type":"object","required":["a"],"properties":{"b":{}}}`, `required property "a" is not defined`},
		{`{"type":"object","properties":{"a":null}}`, `property "a" is null`},
		{`{"type":"object","properties":[]}`, "not a JSON Schema"},
		{`{"type":"object","properties":{"a":{"type":"string","default":1}}}`, "does not resolve"},
		{`{"type":"object","properties":{"a":{"pattern":"("}}}`, "does not resolve"},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, "does not resolve"},
		{`{"type":"object","properties":{"a":{"type":1}}}`, "not a JSON Schema"},
		{`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`, "back to itself"},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/a","default":1}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "back to itself"},
		{`{"type":"object","allOf":[{"$ref":"#"}]}`, "back to itself"},
		{doubling(40), "too many schemas"},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"if":{"anyOf":[{},{"$ref":"#/$defs/a"}]}}}}`, "back to itself"},
		{`{"type":"object","properties":{"a":{"$ref":"#x"}},"$defs":{"a":{"$anchor":"x","not":{"$ref":"#x"}}}}`, "back to itself"},
		{`{"type":"object","$id":"http://h/s","dependentSchemas":{"x":{"$ref":"s"}}}`, "back to itself"},
	} {
		if _, err := tool.ParseSchema(json.RawMessage(tc.schema)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, wanted %q", tc.schema, err, tc.want)
		}
	}
}

// doubling returns a schema in which each of n definitions applies the next one twice.
func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
	}
	return fmt.Sprintf(`{"type":"object","properties":{"a":{"$ref":"#/$defs/0"}},"$defs":{%s"%d":{"type":"string"}}}`, b.String(), n)
}

func TestParamsAreInPositionalOrder(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"z":{},"b":{},"a":{},"y":{}},"required":["a","z"]}`)
	var got []string
	for _, p := range s.Params() {
		got = append(got, p.Name)
	}
	if want := []string{"a", "z", "b", "y"}; !slices.Equal(got, want) {
		t.Errorf("%v, wanted %v", got, want)
	}
}

func TestTypes(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{
		"plain":{"type":"string"},"union":{"type":["null","integer"]},"any":{},"list":{"type":"array","items":{"type":["integer","string"]}},
		"optional":{"anyOf":[{"type":"string"},{"type":"null"}]},"optionalList":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"null"}]},
		"half":{"anyOf":[{"type":"string"},{"minLength":3}]},"values":{"enum":["1","2"]},"mixed":{"enum":["a",1,null]},"const":{"const":"x"},
		"ref":{"$ref":"#/$defs/d"},"chain":{"$ref":"#/$defs/c"},"all":{"allOf":[{"$ref":"#/$defs/d"}]},"optionalRef":{"anyOf":[{"$ref":"#/$defs/d"},{"type":"null"}]},
		"other":{"$ref":"#/properties/plain"},"refs":{"type":"array","items":{"$ref":"#/$defs/d"}},"escaped":{"$ref":"#/$defs/a~1b%20c"},"whole":{"$ref":"#"}},
		"$defs":{"d":{"type":"integer"},"c":{"$ref":"#/$defs/d"},"a/b c":{"type":"boolean"}}}`)
	for name, want := range map[string]string{
		"plain": "string", "union": "integer", "any": "any", "list": "array of integer or string", "optional": "string", "optionalList": "array of integer",
		"half": "any", "values": "string", "mixed": "string or integer", "const": "string", "ref": "integer",
		"chain": "integer", "all": "integer", "optionalRef": "integer", "other": "string", "refs": "array of integer", "escaped": "boolean", "whole": "object",
	} {
		if got := s.Param(name).TypeName(); got != want {
			t.Errorf("%s is %q, wanted %q", name, got, want)
		}
	}
	if p := s.Param("optionalList"); !p.Only("array") || p.Only("null") || !p.Is("null") {
		t.Errorf("optionalList: %v", p.Types)
	}
	if s.Param("Plain") != nil {
		t.Error("names are exact")
	}
}

const checked = `{"type":"object","required":["path","n"],"additionalProperties":false,"properties":{
	"path":{"type":"string"},"n":{"type":"integer","minimum":1,"maximum":9007199254740993},"mode":{"type":"string","enum":["a","b"]},
	"list":{"type":"array","items":{"type":"string"}},"flag":{"type":"boolean","default":true},"ratio":{"type":"number"},
	"maybe":{"type":["string","null"]},"level":{"enum":[1,2,"x"]},"any":{}}}`

func TestCheck(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{`{"path":"x","n":1}`, `{"flag":true,"n":1,"path":"x"}`},
		{`{"path":"x","n":1,"flag":false}`, `{"flag":false,"n":1,"path":"x"}`},
		{`{"path":"x","n":1,"flag":null,"mode":null,"list":null}`, `{"flag":true,"n":1,"path":"x"}`},
		{`{"path":"x","n":1,"maybe":null,"any":null}`, `{"any":null,"flag":true,"maybe":null,"n":1,"path":"x"}`},
		{`{"path":"","n":9007199254740993}`, `{"flag":true,"n":9007199254740993,"path":""}`},
		{`{"path":"x","n":10.0}`, `{"flag":true,"n":10,"path":"x"}`},
		{`{"path":"x","n":1e3}`, `{"flag":true,"n":1000,"path":"x"}`},
		{`{"path":"x","n":1,"ratio":2,"level":2}`, `{"flag":true,"level":2,"n":1,"path":"x","ratio":2}`},
		{`{"path":"x","n":1,"ratio":0.1000000000000000055511151231257827}`, `{"flag":true,"n":1,"path":"x","ratio":0.1000000000000000055511151231257827}`},
		{`{"path":"x","n":1,"list":[]}`, `{"flag":true,"list":[],"n":1,"path":"x"}`},
		{`{"path":"\ud800","n":1}`, `{"flag":true,"n":1,"path":"\ud800"}`},
	} {
		got, bad := parse(t, checked).Check(object(t, tc.args))
		if len(bad) > 0 {
			t.Errorf("%s: %v", tc.args, bad)
			continue
		}
		if b, _ := json.Marshal(got); string(b) != tc.want {
			t.Errorf("%s: %s, wanted %s", tc.args, b, tc.want)
		}
	}
}

func TestCheckReportsEverything(t *testing.T) {
	for _, tc := range []struct {
		args string
		want []string // the form of each element is "kind, parameter: part of the message"
	}{
		{`{}`, []string{`missing path: missing required parameter "path" (string)`, `missing n: missing required parameter "n" (integer)`}},
		{`{"path":null,"n":null}`, []string{"missing path:", "missing n:"}},
		{`{"Path":"x","lst":[],"zzzzzz":1,"mode":"c","list":["a",1],"n":"1"}`, []string{
			"missing path:", `type n: must be integer, not string "1"`, `enum mode: must be one of a, b, not string "c"`, "type list: its element 2 is integer 1",
			`unknown Path: Did you mean "path"?`, `unknown lst: Did you mean "list"?`, "unknown zzzzzz:"}},
		{`{"path":[1],"n":1.5}`, []string{"type path: must be string, not array [1]", "type n: must be integer, not number 1.5"}},
		{`{"path":{},"n":true}`, []string{"type path: not object", "type n: not boolean true"}},
		{`{"path":"x","n":0}`, []string{"constraint n: must be from 1 to 9007199254740992, not 0"}},
		{`{"path":"x","n":1,"level":3}`, []string{"enum level: must be one of 1, 2, x, not integer 3"}},
		{`{"path":"x","n":1,"level":"1"}`, []string{`enum level: not string "1"`}},
	} {
		_, bad := parse(t, checked).Check(object(t, tc.args))
		if len(bad) != len(tc.want) {
			t.Errorf("%s: %d violations %v, wanted %d", tc.args, len(bad), bad, len(tc.want))
			continue
		}
		for i, w := range tc.want {
			head, text, _ := strings.Cut(w, ":")
			kind, param, _ := strings.Cut(head, " ")
			if bad[i].Kind != tool.ViolationKind(kind) || bad[i].Param != param || !strings.Contains(bad[i].Message, strings.TrimSpace(text)) {
				t.Errorf("%s: %+v, wanted %s", tc.args, bad[i], w)
			}
		}
	}
}

func TestCheckBrokenJSON(t *testing.T) {
	for _, raw := range []string{``, ` `, `{`, `"x`, `x`, "\"\x01\"", `1 2`} {
		for _, name := range []string{"path", "mode", "any", "extra"} {
			schema := `{"type":"object","properties":{"path":{"type":"string"},"mode":{"type":"string","enum":["a"]},"any":{}},"additionalProperties":true}`
			_, bad := parse(t, schema).Check(map[string]json.RawMessage{name: json.RawMessage(raw)})
			if len(bad) != 1 || bad[0].Kind != tool.WrongType || bad[0].Param != name || !strings.Contains(bad[0].Message, "is not JSON") {
				t.Errorf("%s = %q: %v", name, raw, bad)
			}
		}
	}
}

// TestCheckComplexSchemas checks constraints that only a validation with the whole schema can find. The message about a
// violation must contain the name of the parameter.
func TestCheckComplexSchemas(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"name":{"type":"string","minLength":2,"pattern":"^[a-z]+$"},
		"edits":{"type":"array","minItems":1,"items":{"type":"object","required":["old"],"properties":{"old":{"type":"string"},"count":{"type":"integer"}},"additionalProperties":false}},
		"when":{"$ref":"#/$defs/when"},"either":{"oneOf":[{"type":"string"},{"type":"integer","minimum":10}]}},
		"$defs":{"when":{"type":"string","enum":["now","later"]}},
		"dependentRequired":{"when":["name"]},"additionalProperties":false}`
	s := parse(t, schema)
	for _, tc := range []struct{ args, param, want string }{
		{`{"name":"ab"}`, "", ""},
		{`{"name":"a"}`, "name", "minLength"},
		{`{"name":"AB"}`, "name", "pattern"},
		{`{"edits":[]}`, "edits", "minItems"},
		{`{"edits":[{"old":"x","count":2}]}`, "", ""},
		{`{"edits":[{"old":"x"},{"new":"y"}]}`, "edits", ""},
		{`{"edits":[{"old":1}]}`, "edits", ""},
		{`{"when":"now","name":"ab"}`, "", ""},
		{`{"when":"never","name":"ab"}`, "when", "must be one of now, later"},
		{`{"when":"now"}`, "", "name"},
		{`{"either":5}`, "either", ""},
		{`{"either":"x"}`, "", ""},
		{`{"either":[]}`, "either", "must be string or integer"},
		{`{"name":"a","edits":[]}`, "name", "minLength"},
	} {
		_, bad := s.Check(object(t, tc.args))
		valid := tc.param == "" && tc.want == ""
		if valid != (len(bad) == 0) {
			t.Errorf("%s: %v", tc.args, bad)
			continue
		}
		if !valid && (bad[0].Param != tc.param || !strings.Contains(bad[0].Message, tc.want)) {
			t.Errorf("%s: %+v, wanted %q %q", tc.args, bad[0], tc.param, tc.want)
		}
	}
	if _, bad := s.Check(object(t, `{"name":"a","edits":[]}`)); len(bad) != 2 {
		t.Errorf("not all at once: %v", bad)
	}
}

func TestOpenSchemas(t *testing.T) {
	for schema, open := range map[string]bool{
		`{"type":"object"}`:                                                                                                               true,
		`{"type":"object","properties":{}}`:                                                                                               true,
		`{"type":"object","properties":{"a":{}}}`:                                                                                         false,
		`{"type":"object","additionalProperties":false}`:                                                                                  false,
		`{"type":"object","additionalProperties":true}`:                                                                                   true,
		`{"type":"object","additionalProperties":{"type":"string"}}`:                                                                      true,
		`{"type":"object","properties":{"a":{}},"patternProperties":{"^x":{}}}`:                                                           true,
		`{"type":"object","properties":{"a":{}},"unevaluatedProperties":true}`:                                                            true,
		`{"type":"object","properties":{"a":{}},"unevaluatedProperties":false}`:                                                           false,
		`{"type":"object","properties":{"a":{}},"anyOf":[{"required":["a"]},{"properties":{"a":{"type":"string"}}}]}`:                     false,
		`{"type":"object","properties":{"a":{}},"anyOf":[{"required":["a"]},{"properties":{"xtra":{"type":"string"}}}]}`:                  true,
		`{"type":"object","properties":{"a":{}},"if":{"required":["a"]},"else":{"allOf":[{"properties":{"xtra":{}}}]}}`:                   true,
		`{"type":"object","properties":{"a":{}},"dependentSchemas":{"a":{"properties":{"xtra":{}}}}}`:                                     true,
		`{"type":"object","properties":{"a":{}},"allOf":[{"$ref":"#/$defs/o"}],"$defs":{"o":{"type":"object","properties":{"xtra":{}}}}}`: true,
		`{"type":"object","properties":{"a":{}},"allOf":[{"properties":{"xtra":{}}}],"additionalProperties":false}`:                       false,
	} {
		s := parse(t, schema)
		if s.Open() != open {
			t.Errorf("%s: open %v", schema, s.Open())
		}
		_, bad := s.Check(object(t, `{"xtra":"1"}`))
		if open != (len(bad) == 0) {
			t.Errorf("%s: %v", schema, bad)
		}
	}
	if _, bad := parse(t, `{"type":"object","additionalProperties":{"type":"string"}}`).Check(object(t, `{"x":1}`)); len(bad) != 1 {
		t.Errorf("the schema of further properties is not looked at: %v", bad)
	}
}

// TestItems checks arrays whose items have different schemas, in the words of several drafts.
func TestItems(t *testing.T) {
	const pair = `[{"type":"string"},{"type":"integer"}]`
	for schema, wrong := range map[string]string{
		`"type":"object","properties":{"v":{"type":"array","prefixItems":` + pair + `,"items":{"type":"boolean"}}}`:                                                  `["a",1,2]`,
		`"type":"object","properties":{"v":{"type":"array","items":` + pair + `,"additionalItems":{"type":"boolean"}}}`:                                              `["a",1,2]`,
		`"$schema":"https://json-schema.org/draft/2019-09/schema#","type":"object","properties":{"v":{"type":"array","items":` + pair + `}}`:                         `["a","b"]`,
		`"$schema":"http://json-schema.org/draft-07/schema","type":"object","properties":{"v":{"type":"array","items":` + pair + `}}`:                                `["a","b"]`,
		`"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"v":{"type":"array","items":` + pair + `}}`:                               `["a","b"]`,
		`"$schema":"https://example.org/own","type":"object","properties":{"v":{"type":"array","prefixItems":` + pair + `}}`:                                         `["a","b"]`,
		`"type":"object","properties":{"v":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"array","items":{"type":["string","integer","boolean"]}}]}}`: `["a",1.5]`,
		`"type":"object","properties":{"v":{"type":"array","items":{"enum":[]}}}`:                                                                                    `[1]`,
	} {
		s := parse(t, "{"+schema+"}").Verbatim()
		for args, valid := range map[string]bool{`{"v":["a",1,true]}`: !strings.Contains(schema, `"enum"`), `{"v":` + wrong + `}`: false} {
			if _, bad := s.Check(object(t, args)); (len(bad) == 0) != valid || !valid && bad[0].Param != "v" {
				t.Errorf("%s: %s: %v", schema, args, bad)
			}
		}
	}
}

// TestReferenceToTheWhole checks that the violation of a parameter which refers to the whole schema is reported.
func TestReferenceToTheWhole(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"n":{"type":"integer"},"in":{"$ref":"#"},"list":{"type":"array","items":{"$ref":"#"}}}}`)
	if _, bad := s.Check(object(t, `{"in":{"in":{"n":1}},"list":[{"n":"x"}]}`)); len(bad) != 1 {
		t.Errorf("the violations are %v", bad)
	}
}

func TestCheckKeepsItsInput(t *testing.T) {
	args := object(t, `{"path":"x","n":1.0}`)
	parse(t, checked).Check(args)
	if b, _ := json.Marshal(args); string(b) != `{"n":1.0,"path":"x"}` {
		t.Errorf("%s", b)
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{checked, `{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"}}}}`, `{"type":"object","properties":{"a":null}}`} {
		f.Add(s, `{"path":"x","n":1}`)
		f.Add(s, `{"a":[{"a":[]}]}`)
	}
	f.Fuzz(func(t *testing.T, schema, args string) {
		s, err := tool.ParseSchema(json.RawMessage(schema))
		if err != nil {
			return
		}
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(args), &m) != nil {
			return
		}
		out, bad := s.Check(m)
		for _, p := range s.Params() {
			if _, given := out[p.Name]; len(bad) == 0 && p.Required && !given {
				t.Errorf("%s: %s lacks %s", schema, args, p.Name)
			}
			_ = p.TypeName()
			_ = p.EnumNames()
		}
	})
}

// TestNullsWithin checks null properties of nested objects. Such a property must count as missing, unless its schema
// allows null. The test also checks that numbers keep their notation.
func TestNullsWithin(t *testing.T) {
	s, err := tool.ParseSchema(json.RawMessage(`{"type":"object","properties":{
		"list":{"type":"array","items":{"type":"object","properties":{"old":{"type":"string"},"all":{"type":"boolean"},"n":{"type":"number"},
			"free":{},"or":{"type":["string","null"]},"deep":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}},"required":["old"],"additionalProperties":false}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		`[{"old":"a<b","all":null,"n":12345678901234567890}]`: `[{"n":12345678901234567890,"old":"a<b"}]`,
		`[{"old":"a","free":null,"or":null}]`:                 `[{"old":"a","free":null,"or":null}]`,
		`[{"old":"a","deep":{"x":"null"},"all":null}]`:        `[{"deep":{"x":"null"},"old":"a"}]`,
		`[{"old":"null"}]`:                                    `[{"old":"null"}]`,
	} {
		if got, bad := s.Check(map[string]json.RawMessage{"list": json.RawMessage(given)}); len(bad) > 0 || string(got["list"]) != want {
			t.Errorf("%s: %s %v", given, got["list"], bad)
		}
	}
	for _, wrong := range []string{`[{"old":null}]`, `[{"old":"a","deep":{"x":null}}]`, `[null]`} {
		if got, bad := s.Check(map[string]json.RawMessage{"list": json.RawMessage(wrong)}); len(bad) == 0 {
			t.Errorf("%s is taken: %s", wrong, got["list"])
		}
	}
}

// TestVerbatim checks that the arguments for another program stay as the caller sent them, and that defaults cannot
// make them invalid.
func TestVerbatim(t *testing.T) {
	const schema = `{"type":"object","properties":{"id":{"type":"string","default":""},"name":{"type":"string","default":""},"n":{"type":"integer","default":20},
		"in":{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"string","default":"x"}}},"list":{"type":"array","items":{"$ref":"#/$defs/item"}}},
		"$defs":{"item":{"type":"object","properties":{"k":{"type":"integer","default":1},"of":{"$ref":"#/$defs/item","default":{}}}}},
		"oneOf":[{"required":["id"]},{"required":["name"]}]}`
	s := parse(t, schema)
	for _, tc := range []struct{ args, sent, filled string }{
		{`{"id":"7"}`, ``, `{"id":"7","in":null,"list":null,"n":20,"name":""}`},
		{`{"name":"x","n":1e1,"in":{"z":1.0,"b":null}}`, ``, `{"id":"","in":{"a":"x","b":null,"z":1.0},"list":null,"n":10,"name":"x"}`},
		{`{"id":"x","list":[{"k":2,"of":{"k":3}},{}]}`, ``, `{"id":"x","in":null,"list":[{"k":2,"of":{"k":3,"of":{"k":1}}},{"k":1,"of":{"k":1}}],"n":20,"name":""}`},
		{`{"id":"x","n":null,"in":{"a":null,"z":1}}`, `{"id":"x","in":{"z":1}}`, `{"id":"x","in":{"a":"x","z":1},"list":null,"n":20,"name":""}`},
		{`{"id":"x","name":"y"}`, "invalid", "invalid"},
		{`{}`, "invalid", "invalid"},
		{`{"id":"x","list":[{"k":"one"}]}`, "invalid", "invalid"},
	} {
		for _, is := range []struct {
			schema *tool.Schema
			want   string
		}{{s.Verbatim(), cmp.Or(tc.sent, tc.args)}, {s, strings.NewReplacer(`"in":null,`, "", `"list":null,`, "").Replace(tc.filled)}} {
			out, bad := is.schema.Check(object(t, tc.args))
			if is.want == "invalid" {
				if len(bad) == 0 {
					t.Errorf("%s is valid", tc.args)
				}
				continue
			}
			if got := canonical(t, out); len(bad) > 0 || got != canonical(t, object(t, is.want)) {
				t.Errorf("%s: %s %v, wanted %s", tc.args, got, bad, is.want)
			}
		}
	}
}

// TestReferencesCoerce checks that conversions reach values behind references.
func TestReferencesCoerce(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"},"o":{"allOf":[{"$ref":"#/$defs/o"}],"description":"x"},"list":{"type":"array","items":{"$ref":"#/$defs/d"}}},
		"$defs":{"n":{"type":"integer"},"d":{"type":"boolean"},"o":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"},"in":{"$ref":"#/$defs/o"}}}}}`)
	out, bad := s.Check(s.Coerce(object(t, `{"n":"7","o":"{\"n\":\"8\",\"in\":{\"in\":{\"n\":\"9\"}}}","list":["true",false]}`)))
	if got, want := canonical(t, out), `{"list":[true,false],"n":7,"o":{"in":{"in":{"n":9}},"n":8}}`; len(bad) > 0 || got != want {
		t.Errorf("%s %v, wanted %s", got, bad, want)
	}
	if _, bad := s.Check(object(t, `{"o":{"in":{"n":"x"}}}`)); len(bad) != 1 || bad[0].Param != "o" {
		t.Errorf("the violation names no parameter: %v", bad)
	}
}

// canonical returns arguments as JSON. Numbers keep their form.
func canonical(t *testing.T, args map[string]json.RawMessage) string {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
