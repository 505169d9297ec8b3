package surplus

import "testing"

func TestUnknownFieldsSurvive(t *testing.T) {
	type record struct {
		A int    `json:"a"`
		B string `json:"b,omitempty"`
		C int    `json:"-"`
	}
	for in, want := range map[string]string{
		`{"a":1}`: `{"a":2}`,
		`{"a":1,"z":{"deep":[1,2]},"b":"x","y":null}`: `{"a":2,"b":"x","y":null,"z":{"deep":[1,2]}}`,
		`{"C":7}`: `{"a":2,"C":7}`,
		`{}`:      `{"a":2}`,
	} {
		var r record
		more, err := Decode([]byte(in), &r)
		if err != nil {
			t.Fatal(err)
		}
		r.A = 2
		if out, err := Encode(r, more); err != nil || string(out) != want {
			t.Errorf("%s becomes %s, not %s: %v", in, out, want, err)
		}
	}
	if _, err := Decode([]byte(`[1]`), new(record)); err == nil {
		t.Error("a list was taken for an object")
	}
	if out, err := Encode(struct{}{}, Fields{"x": []byte("1")}); err != nil || string(out) != `{"x":1}` {
		t.Errorf("%s %v", out, err)
	}
}
