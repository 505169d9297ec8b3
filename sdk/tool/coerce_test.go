package tool_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

const coerced = `{"type": "object", "additionalProperties": false, "properties": {
	"text": {"type": "string"},
	"texts": {"type": "array", "items": {"type": "string"}},
	"either": {"type": ["string", "array"], "items": {"type": "string"}},
	"maybe": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
	"count": {"type": "integer"},
	"counts": {"type": "array", "items": {"type": "integer"}},
	"share": {"type": "number"},
	"on": {"type": "boolean"},
	"free": {"type": "object"},
	"edits": {"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": {
		"old_string": {"type": "string"}, "replace_all": {"type": "boolean"}}}},
	"open": {"type": "object", "required": ["file_path"], "properties": {"file_path": {"type": "string"}, "content_type": {"type": "string"}}}
}}`

func TestCoerce(t *testing.T) {
	s := parse(t, coerced)
	for _, c := range []struct{ given, want string }{
		{`{"texts": "*.go"}`, `{"texts": ["*.go"]}`},
		{`{"texts": "[a-z]*.go"}`, `{"texts": ["[a-z]*.go"]}`},
		{`{"texts": "[\"a\", \"b\"]"}`, `{"texts": ["a", "b"]}`},
		{`{"maybe": "*.go"}`, `{"maybe": ["*.go"]}`},
		{`{"count": "5"}`, `{"count": 5}`},
		{`{"count": "-5"}`, `{"count": -5}`},
		{`{"counts": "5"}`, `{"counts": [5]}`},
		{`{"counts": ["5", 6]}`, `{"counts": [5, 6]}`},
		{`{"share": "0.25"}`, `{"share": 0.25}`},
		{`{"on": "true"}`, `{"on": true}`},
		{`{"on": "False"}`, `{"on": false}`},
		{`{"free": "{\"a\": 1}"}`, `{"free": {"a": 1}}`},
		{`{"edits": "[{\"old_string\": \"a\"}]"}`, `{"edits": [{"old_string": "a"}]}`},
		{`{"edits": [{"oldString": "a", "replaceAll": "true"}]}`, `{"edits": [{"old_string": "a", "replace_all": true}]}`},
		{`{"edits": "[{\"oldString\": \"<&>\"}]"}`, `{"edits": [{"old_string": "<&>"}]}`},
		{`{"open": {"filePath": "a", "Content-Type": "b"}}`, `{"open": {"file_path": "a", "Content-Type": "b"}}`},
	} {
		given, want := object(t, c.given), object(t, c.want)
		got := s.Coerce(given)
		if !same(t, got, want) {
			t.Errorf("%s became %s, want %s", c.given, text(t, got), c.want)
		}
		if _, bad := s.Check(got); len(bad) > 0 {
			t.Errorf("%s became %s, which is refused: %v", c.given, text(t, got), bad)
		}
		if again := object(t, c.given); !same(t, given, again) {
			t.Errorf("the arguments %s were changed", c.given)
		}
	}
}

// TestCoerceLosesNothing checks values that must stay unchanged, because a conversion would lose data or is
// unnecessary.
func TestCoerceLosesNothing(t *testing.T) {
	s := parse(t, coerced)
	for _, given := range []string{
		`{"text": 5}`, `{"text": ["a"]}`, `{"text": {"a": 1}}`, `{"text": "[1]"}`, `{"either": "[\"a\"]"}`,
		`{"texts": ""}`, `{"texts": 5}`, `{"texts": "[\"a\", \"b"}`,
		`{"count": "5.0"}`, `{"count": "1e3"}`, `{"count": "007"}`, `{"count": "+5"}`, `{"count": " 5"}`, `{"count": "-0"}`, `{"count": "9999999999999999999"}`, `{"count": ""}`, `{"count": 5.5}`,
		`{"counts": "a"}`, `{"share": "NaN"}`, `{"share": "1e400"}`, `{"share": "1,5"}`, `{"on": "yes"}`, `{"on": "1"}`, `{"on": 1}`, `{"on": " true"}`,
		`{"free": "a"}`, `{"free": "[1]"}`, `{"edits": "[{\"old_string\": "}`, `{"edits": "x"}`,
		`{"edits": [{"old_string": "a", "oldString": "b"}]}`, `{"open": {"contentType": "a", "file_path": "b"}}`, `{"unknown": "5"}`,
	} {
		args := object(t, given)
		if got := s.Coerce(args); !same(t, got, object(t, given)) {
			t.Errorf("%s became %s", given, text(t, got))
		}
	}
}

func FuzzCoerce(f *testing.F) {
	s, err := tool.ParseSchema(json.RawMessage(coerced))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{"texts": "*.go", "count": "5"}`, `{"edits": "[{\"oldString\": \"a\"}]"}`, `{"maybe": null, "share": "1e400"}`, `{"open": {"FILE_PATH": 1}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		var args map[string]json.RawMessage
		if json.Unmarshal([]byte(given), &args) != nil {
			return
		}
		_, before := s.Check(args)
		got := s.Coerce(args)
		_, after := s.Check(got)
		if len(before) == 0 && !same(t, got, args) {
			t.Errorf("valid arguments %s became %s", given, text(t, got))
		}
		if len(after) > len(before) {
			t.Errorf("%s became %s, which has more problems: %v", given, text(t, got), after)
		}
		if again := s.Coerce(got); !same(t, again, got) {
			t.Errorf("%s became %s, and then %s", given, text(t, got), text(t, again))
		}
	})
}

func same(t *testing.T, a, b map[string]json.RawMessage) bool {
	t.Helper()
	var x, y any
	if text(t, a) == text(t, b) {
		return true
	}
	for s, v := range map[string]*any{text(t, a): &x, text(t, b): &y} {
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		if err := dec.Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(x, y)
}

func text(t *testing.T, args map[string]json.RawMessage) string {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
