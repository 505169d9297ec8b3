package pattern

import "testing"

func TestLiterals(t *testing.T) {
	for _, tc := range []struct {
		expr    string
		o       Options
		want    string
		special bool
	}{
		{expr: "needle", want: "needle"},
		{expr: "Needle", want: "needle"},
		{expr: "ab", want: ""},
		{expr: "", want: ""},
		{expr: `func \(.*\) ServeHTTP\(`, want: "func ( & ) servehttp("},
		{expr: "deadlock|livelock", want: "deadlock|livelock"},
		{expr: "deadlock|a*", want: ""},
		{expr: "(foo|bar)baz", want: "barbaz|foobaz"},
		{expr: "colou?r", want: "color|colour"},
		{expr: "(abc)+def", want: "abc & def"},
		{expr: "(abc)*def", want: "def"},
		{expr: "(abc){2,3}", want: "abc"},
		{expr: "gr[ae]y", want: "gray|grey"},
		{expr: `x[0-9]+needle\d`, want: "needle"}, // \d and [0-9] can match many characters, so they add nothing to the literal
		{expr: `needle[0-3]`, want: "needle0|needle1|needle2|needle3"},
		{expr: `one\s+two33`, want: "one & two33"},
		{expr: `^needle$`, want: "needle"},
		{expr: `needle\n`, o: Options{Multiline: true}, want: "needle"},
		{expr: `abc\ndef`, o: Options{Multiline: true}, want: "abc & def"},
		{expr: "été", want: "été"},
		{expr: "task", o: Options{IgnoreCase: true}, want: "task", special: true},
		{expr: "door", o: Options{IgnoreCase: true}, want: "door"},
		{expr: "é1234", o: Options{IgnoreCase: true}, want: "É1234|é1234"},
		{expr: "\u017fun", want: "\u017fun"},
		{expr: `(?-u)\xff\xfe\xfd`, want: "\xff\xfe\xfd"},
		{expr: "a.b*", o: Options{Dialect: Fixed}, want: "a.b*"},
		{expr: "(a|b|c|d)(a|b|c|d)(a|b|c|d)(a|b|c|d)xyz", want: "aaaxyz|"},
	} {
		p, err := Compile(tc.expr, tc.o)
		if err != nil {
			t.Fatalf("%s: %v", tc.expr, err)
		}
		got := p.Literals()
		if tc.want == "aaaxyz|" { // too many combinations to list
			if len(got.Sets) == 0 || shortestOf(got.Sets[len(got.Sets)-1]) < 3 {
				t.Errorf("%s: %s", tc.expr, got)
			}
			continue
		}
		if got.String() != tc.want || got.Special != tc.special {
			t.Errorf("%s: %q, special %v; want %q, %v", tc.expr, got, got.Special, tc.want, tc.special)
		}
	}
}

// TestNeedle compares the results of needle with the results of package bytes.
func TestNeedle(t *testing.T) {
	texts := []string{"", "x", "needle", "xneedle", "eeeeeeeeeeeeeeeeeneedle", "nnnnnnnnnnnnnnnnnnnnnneedl", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "zazbzczdzezfzgzhzizjzkzlzmznzozpz"}
	for _, find := range []string{"n", "needle", "z", "zp", "pz", "zz", "ee", "zkz"} {
		n := newNeedle(requirement{text: []byte(find)})
		for _, text := range texts {
			want := -1
			for i := 0; i+len(find) <= len(text) && want < 0; i++ {
				if text[i:i+len(find)] == find {
					want = i
				}
			}
			if got := n.next([]byte(text)); got != want {
				t.Errorf("%q in %q: %d, want %d", find, text, got, want)
			}
		}
	}
}
