package shellscript_test

import (
	"slices"
	"testing"

	"toolhost.dev/shellscript"
)

func TestIsInterpreter(t *testing.T) {
	for name, want := range map[string]bool{"/usr/bin/python3.11": true, "python": true, "/bin/sh": true, "lua5.4": true, "perl": true, "/usr/bin/env": true, "/usr/bin/touch": false, "curl": false, "./pythonx": false, "7": false, "": false} {
		if shellscript.IsInterpreter(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

func TestEnvCommand(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"/usr/bin/env", "python3", "./s", "a b"}, []string{"python3", "./s", "a b"}},
		{[]string{"/usr/bin/env", "-S python3 -u", "./s", "a"}, []string{"python3", "-u", "./s", "a"}},
		{[]string{"/usr/bin/env", "-Spython3", "./s"}, []string{"python3", "./s"}},
		{[]string{"/usr/bin/env", "-i", "./s"}, nil},
		{[]string{"/usr/bin/env", "-S -i python3", "./s"}, nil},
		{[]string{"/usr/bin/env", "-S A=b python3", "./s"}, nil},
		{[]string{"/usr/bin/env", `-S "python3"`, "./s"}, nil},
		{[]string{"/usr/bin/env", "A=b", "./s"}, nil},
		{[]string{"/usr/bin/env", "./s"}, nil},
		{nil, nil},
	} {
		if got := shellscript.EnvCommand(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}
