package audit

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzHarmless checks that the complete check does not change any value in arguments that the fast check accepts.
func FuzzHarmless(f *testing.F) {
	for _, s := range []string{
		`{"file_path":"/a/b.go","limit":20}`, `{"a":[1,2,{"b":null}]}`, `{"PassWord":"x"}`, `{"t":"value-of-a-secret"}`, `{"c":"curl -u me:pw x"}`, `{"u":"https://a:b@c"}`, `{"x":"ghp_0123456789012345678901"}`, `{"x":"\u0070assword=1"}`,
		`{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, `{"x":[` + strings.Repeat("1,", 150) + `1]}`, `{"x":"` + strings.Repeat("y", 2000) + `"}`, `not json`, `[]`, ` { } `, `{"k":"é"}`, "{\"k\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	m := New([]string{"value-of-a-secret"})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !m.harmless(raw) {
			return
		}
		var kept, masked any
		if err := json.Unmarshal(raw, &kept); err != nil {
			t.Fatalf("%q is kept: %v", raw, err)
		}
		if err := json.Unmarshal([]byte(m.masked(raw)), &masked); err != nil || !reflect.DeepEqual(kept, masked) {
			t.Errorf("%q is kept, not %s", raw, m.masked(raw))
		}
	})
}

func TestHarmless(t *testing.T) {
	m := New([]string{"correct-horse"})
	for s, want := range map[string]bool{
		`{"file_path":"/a/b.go","limit":20}`: true, `{}`: true, `{"x":"a correct-horse"}`: false, `{"PassWord":"x"}`: false, `{"x":"Bearer abc"}`: false, `{"x":"a\nb"}`: false, `{"x":"\u0061"}`: false,
		`{"x":"` + strings.Repeat("y", maxText) + `"}`: false, `{`: false,
	} {
		if got := m.harmless([]byte(s)); got != want {
			t.Errorf("%s: %v", s, got)
		}
	}
}

// masked masks arguments without the texts of their call.
func (m *Masker) masked(raw []byte) string { return (&visitor{Masker: m}).masked(raw) }
