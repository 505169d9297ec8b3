package call

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestObject(t *testing.T) {
	for _, values := range []map[string]json.RawMessage{
		nil,
		{"a": json.RawMessage(`1`)},
		{"z": json.RawMessage(`"x"`), "a\"b\n": json.RawMessage(`[1, {"c":null}]`), "": json.RawMessage(` {} `)},
	} {
		var got map[string]json.RawMessage
		if err := json.Unmarshal(Object(values), &got); err != nil {
			t.Fatalf("%s: %v", Object(values), err)
		}
		want, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		_ = json.Unmarshal(Object(values), &a)
		if _ = json.Unmarshal(want, &b); len(values) > 0 && !reflect.DeepEqual(a, b) {
			t.Errorf("%s, wanted %s", Object(values), want)
		}
	}
}
