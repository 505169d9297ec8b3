package tool_test

import (
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

func TestNameOf(t *testing.T) {
	for in, want := range map[string]string{
		"read_file": "read_file", "getUser": "getuser", "2nd tool": "t2nd_tool", "a/b:c": "a_b_c", "Ünï": "t_n_", "_x": "t_x", "a.b-c": "a.b-c",
		"": "", strings.Repeat("a", 64): strings.Repeat("a", 64),
	} {
		if got := tool.NameOf(in); got != want {
			t.Errorf("NameOf(%q) = %q, want %q", in, got, want)
		}
	}
	long := strings.Repeat("a", 100)
	a, b := tool.NameOf(long+"x"), tool.NameOf(long+"y")
	if !tool.ValidName(a) || !tool.ValidName(b) || a == b {
		t.Errorf("long names: %q %q", a, b)
	}
}
