//go:build !race

package rawjson_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"toolhost.dev/sdk/rawjson"
)

// pieces contains parts of JSON texts, valid and invalid ones.
var pieces = []string{
	"{", "}", "[", "]", ":", ",", `"a"`, `"key":`, `"`, `\`, `\"`, `\u00e9`, `\ud83d`, `\u12`, `\x`, "0", "-0", "12.5e-3", "01", "1.", "-", "1e", "true", "false", "null", "nul",
	" ", "\n", "\t", "\x00", "\x1f", "é", "\xff", "long text without escapes", "{}", "[]", `{"a":[1,{"b":null}]}`,
}

// TestOracleValid checks random texts. Valid must return the same result as the standard library.
func TestOracleValid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	valid := 0
	same := func(text string) {
		t.Helper()
		want := json.Valid([]byte(text))
		if got := rawjson.Valid([]byte(text)); got != want {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
		if want {
			valid++
			parts(t, text)
		}
	}
	for range 100_000 {
		var b strings.Builder
		for range r.IntN(8) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		same(b.String())
	}
	for range 20_000 {
		text := []byte(document(r, 4))
		same(string(text))
		text[r.IntN(len(text))] = byte(r.IntN(256))
		same(string(text))
		same(string(text[:r.IntN(len(text))]))
	}
	for _, n := range []int{9_999, 10_000, 10_001} {
		same(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	if valid < 20_000 {
		t.Errorf("only %d texts were valid", valid)
	}
}

// document returns a random valid JSON text.
func document(r *rand.Rand, depth int) string {
	space := func() string { return strings.Repeat(" ", r.IntN(2)) }
	n := 7
	if depth == 0 {
		n = 5
	}
	switch r.IntN(n) {
	case 0:
		return []string{"0", "-1", "12345678901234567890", "0.25", "1E+9"}[r.IntN(5)]
	case 1:
		return []string{"true", "false", "null"}[r.IntN(3)]
	case 2, 3, 4:
		return `"` + []string{"", "a", "an ordinary text of some length", `\"quoted\" and \\`, `\u00e9\n`, "日本", "\xff", "}],{["}[r.IntN(8)] + `"`
	case 5:
		list := make([]string, r.IntN(4))
		for i := range list {
			list[i] = space() + document(r, depth-1) + space()
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	list := make([]string, r.IntN(4))
	for i := range list {
		list[i] = space() + `"` + []string{"a", "b", `\u0063`, "long key"}[r.IntN(4)] + `"` + space() + ":" + space() + document(r, depth-1) + space()
	}
	return "{" + strings.Join(list, ",") + "}"
}

// parts checks that rawjson splits a valid text into the same parts as the standard library.
func parts(t *testing.T, text string) {
	t.Helper()
	var object map[string]json.RawMessage
	if strings.HasPrefix(strings.TrimSpace(text), "{") && json.Unmarshal([]byte(text), &object) == nil {
		if got := maps.Collect(rawjson.Members([]byte(text))); !reflect.DeepEqual(got, object) {
			t.Fatalf("%q: %q, want %q", text, got, object)
		}
	}
	var array []json.RawMessage
	if strings.HasPrefix(strings.TrimSpace(text), "[") && json.Unmarshal([]byte(text), &array) == nil {
		got := []json.RawMessage{}
		for v := range rawjson.Elements([]byte(text)) {
			got = append(got, v)
		}
		if !reflect.DeepEqual(got, array) {
			t.Fatalf("%q: %q, want %q", text, got, array)
		}
	}
	var s string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &s) == nil && rawjson.Text([]byte(strings.TrimSpace(text))) != s {
		t.Fatalf("%q: %q", text, s)
	}
}
