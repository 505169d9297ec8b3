package config_test

import (
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/config"
)

// TestOneLine checks that the message for a block in one line that is not valid has the same block over several lines,
// which is valid.
func TestOneLine(t *testing.T) {
	for line, want := range map[string]string{
		`plugin "p" { path = "/p" optional = true }`:                               "plugin \"p\" {\n  path     = \"/p\"\n  optional = true\n}",
		`plugin "p" { path = "/p", optional = true }`:                              "plugin \"p\" {\n  path     = \"/p\"\n  optional = true\n}",
		`plugin "bash" { sandbox { network = ["a.example", "b.example"] } }`:       "plugin \"bash\" {\n  sandbox {\n    network = [\"a.example\", \"b.example\"]\n  }\n}",
		`plugin "p" { sandbox { read = ["/x"], network = true } path = "/p" }`:     "plugin \"p\" {\n  sandbox {\n    read    = [\"/x\"]\n    network = true\n  }\n  path = \"/p\"\n}",
		`plugin "p" { path = "/p" env = { A = "1", B = "${x}" } }`:                 "plugin \"p\" {\n  path = \"/p\"\n  env  = { A = \"1\", B = \"${x}\" }\n}",
		`permissions { paths { deny = [".env"] } }`:                                "permissions {\n  paths {\n    deny = [\".env\"]\n  }\n}",
		`permissions { deny "a" { command = "rm *" reason = "no: {b} = \"c\"" } }`: "permissions {\n  deny \"a\" {\n    command = \"rm *\"\n    reason  = \"no: {b} = \\\"c\\\"\"\n  }\n}",
	} {
		_, err := config.Parse([]byte("bundled = false\n"+line+"\n"), "x.hcl", config.Environment{})
		if err == nil || !strings.Contains(err.Error(), "Write it over several lines:\n"+want+"\n   2 | ") {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if _, err := config.Format("x.hcl", []byte(want)); err != nil {
			t.Errorf("%s is not valid: %v", want, err)
		}
	}
}

// TestDays checks that all durations accept days.
func TestDays(t *testing.T) {
	c, err := config.Parse([]byte("retention {\n  sessions = \"30d\"\n}\nworkspace {\n  limits {\n    age = \"2d\"\n  }\n}\nhost {\n  timeout = \"1d\"\n}\n"), "x.hcl", config.Environment{})
	if err != nil || c.Retention.Sessions != 30*24*time.Hour || c.Workspace.Limits.Age != 48*time.Hour || c.Host.Timeout != 24*time.Hour {
		t.Errorf("%v: %+v", err, c)
	}
}
