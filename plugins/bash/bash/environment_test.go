package bash

import (
	"slices"
	"testing"
)

// TestEnvironIsMadeAnew checks that the cached environment is used only if the inputs are the same.
func TestEnvironIsMadeAnew(t *testing.T) {
	var e environ
	for _, tc := range []struct {
		own, login []string
		commands   string
		want       []string
	}{
		{[]string{"PATH=/bin"}, nil, "/tools", []string{"PATH=/bin:/tools"}},
		{[]string{"PATH=/bin"}, nil, "/tools", []string{"PATH=/bin:/tools"}},
		{[]string{"PATH=/bin"}, nil, "/others", []string{"PATH=/bin:/others"}},
		{[]string{"PATH=/bin"}, nil, "", []string{"PATH=/bin"}},
		{[]string{"PATH=/bin"}, []string{"X=1", "PATH=/bin:/more"}, "", []string{"PATH=/bin:/more", "X=1"}},
		{[]string{"PATH=/sbin"}, []string{"X=1", "PATH=/bin:/more"}, "/tools", []string{"PATH=/sbin:/bin:/more:/tools", "X=1"}},
	} {
		got := e.assemble(slices.Clone(tc.own), slices.Clone(tc.login), tc.commands)
		if again := e.assemble(slices.Clone(tc.own), slices.Clone(tc.login), tc.commands); &again[0] != &got[0] {
			t.Errorf("%+v: it is made anew", tc)
		}
		for _, want := range tc.want {
			if !slices.Contains(got, want) {
				t.Errorf("%+v: %q is not in %q", tc, want, got)
			}
		}
		if slices.Contains(got, "X=1") != slices.Contains(tc.want, "X=1") {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}
