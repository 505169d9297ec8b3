package console

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// TestArgumentList checks that arguments are shown without JSON, and that those with their default value are left out.
func TestArgumentList(t *testing.T) {
	defaults := map[string]json.RawMessage{"encoding": json.RawMessage(`"auto"`), "offset": json.RawMessage(`1`), "of": json.RawMessage(`{"a": [1]}`), "none": nil}
	for raw, want := range map[string][]argument{
		`{"encoding":"auto","file_path":"a b","offset":1}`:       {{"file_path", "a b"}},
		`{"offset":10,"encoding":"utf-8"}`:                       {{"offset", "10"}, {"encoding", "utf-8"}},
		`{"of":{"a":[1]},"none":null,"list":["x"],"other":true}`: {{"none", "null"}, {"list", `["x"]`}, {"other", "true"}},
		`{"text":"two\nlines \"quoted\""}`:                       {{"text", "two\nlines \"quoted\""}},
		`{}`:                                                     nil,
	} {
		if got, ok := argumentList(raw, defaults); !ok || !slices.Equal(got, want) {
			t.Errorf("%s is shown as %q, %v, want %q", raw, got, ok, want)
		}
	}
	for _, raw := range []string{"", "null", "[1]", `"text"`, `{"file_path":"cut…`, `{"a":1,`} {
		if got, ok := argumentList(raw, defaults); ok {
			t.Errorf("%q is shown as the list %q", raw, got)
		}
	}
}

// TestDurations checks that a duration has a unit that suits it.
func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0 ms", 412 * time.Microsecond: "0.4 ms", 999940 * time.Microsecond: "999.9 ms", time.Second: "1.0 s", 25110200 * time.Microsecond: "25 s", 90 * time.Second: "1 min 30 s", 3 * time.Hour: "3 h 0 min",
	} {
		if got := took(d); got != want {
			t.Errorf("%v is shown as %q, want %q", d, got, want)
		}
	}
}
