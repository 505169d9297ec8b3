package config

import (
	"strings"
	"testing"
)

func TestSharedText(t *testing.T) {
	first := "# The tools of all nodes.\nplugin \"read\" {}\n\nhost {\n  state_dir    = \"/first\"\n  max_parallel = 3\n}\n\nfleet {\n  node = \"one\"\n  capacity {\n    calls = 4\n  }\n}\n"
	shared, err := SharedText("a.hcl", []byte(first))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(shared); strings.Contains(text, "fleet") || strings.Contains(text, "/first") || !strings.Contains(text, "# The tools of all nodes.") || !strings.Contains(text, "max_parallel = 3") {
		t.Errorf("shared: %s", text)
	}
	for name, own := range map[string]string{
		"both":       "host {\n  state_dir = \"/second\"\n}\nfleet {\n  node = \"two\"\n  workspace \"repo\" {\n    path = \"/srv/repo\"\n  }\n}\nplugin \"edit\" {}\n",
		"fleet only": "fleet {\n  node = \"two\"\n  workspace \"repo\" {\n    path = \"/srv/repo\"\n  }\n}\n",
		"nothing":    "",
	} {
		out, err := WithOwn("a.hcl", []byte(first), []byte(own))
		if err != nil {
			t.Fatal(err)
		}
		text := string(out)
		for part, want := range map[string]bool{
			`node = "two"`: name != "nothing", `path = "/srv/repo"`: name != "nothing", `"/second"`: name == "both",
			`"/first"`: false, `"one"`: false, `plugin "edit"`: false, `plugin "read" {}`: true, "max_parallel = 3": true,
		} {
			if strings.Contains(text, part) != want {
				t.Errorf("%s: %q is there: %v\n%s", name, part, !want, text)
			}
		}
		if again, err := WithOwn("a.hcl", out, []byte(own)); err != nil || string(again) != text {
			t.Errorf("%s: repeated (%v):\n%s", name, err, again)
		}
	}
	if _, err := WithOwn("a.hcl", []byte("plugin {"), nil); err == nil || !strings.Contains(err.Error(), "a.hcl:1") {
		t.Errorf("a syntax error: %v", err)
	}
	if _, err := SharedText("a.json", []byte("{}")); err == nil || !strings.Contains(err.Error(), "Rewrite it as HCL") {
		t.Errorf("JSON: %v", err)
	}
}
