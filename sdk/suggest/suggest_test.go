package suggest_test

import (
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/suggest"
)

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"kitten", "sitting", 3},
		{"é", "e", 1}, {"日本", "本日", 1}, {"\xff\xfe", "", 2}, {strings.Repeat("a", 200), strings.Repeat("a", 128) + "bbbb", 0},
		{strings.Repeat("é", 100), strings.Repeat("é", 100), 0},
	} {
		if got := suggest.Distance(tc.a, tc.b); got != tc.want {
			t.Errorf("%q, %q: %d, wanted %d", tc.a, tc.b, got, tc.want)
		}
		if suggest.Distance(tc.a, tc.b) != suggest.Distance(tc.b, tc.a) {
			t.Errorf("%q, %q is not symmetric", tc.a, tc.b)
		}
	}
}

func TestClosest(t *testing.T) {
	names := []string{"file_path", "path", "limit", "offset", "show_line_numbers"}
	for name, want := range map[string][]string{
		"filePath": {"file_path"}, "FILE-PATH": {"file_path"}, "pth": {"path"}, "ofset": {"offset"}, "show": {"show_line_numbers"}, "limits": {"limit"}, "zzz": nil, "": nil,
		strings.Repeat("x", 1<<20): nil,
	} {
		if got := suggest.Closest(name, names, 3); !slices.Equal(got, want) {
			t.Errorf("%.20q: %v, wanted %v", name, got, want)
		}
	}
	if got := suggest.Closest("ab", []string{"ab1", "ab2", "ab3", "a_b", "ab4"}, 2); !slices.Equal(got, []string{"a_b", "ab1"}) {
		t.Errorf("%v", got)
	}
	if got := suggest.DidYouMean("ab", []string{"ab1", "ac"}); got != ` Did you mean "ab1" or "ac"?` {
		t.Error(got)
	}
}
