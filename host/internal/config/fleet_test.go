package config_test

import (
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/config"
)

func TestFleet(t *testing.T) {
	cfg, err := config.Parse([]byte("fleet {\n  node = \"east1\"\n  labels = { zone = \"east\" }\n  workspace \"repo\" {\n    path = \"/srv/repo\"\n    shared = \"nfs\"\n    nodes = { zone = \"east\" }\n  }\n}"), "fleet.hcl", config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	f := cfg.Fleet
	if w := f.Workspace("repo"); f.Node != "east1" || f.Lease != 15*time.Second || w == nil || !w.Here(f.Labels) || w.Here(nil) {
		t.Errorf("%+v", f)
	}
	for text, want := range map[string]string{
		`coordinators = ["a:1", "b:1"]`: "cannot have 2 coordinators",
		`coordinators = ["a"]`:          "is not an address",
		`node = "East 1"`:               "cannot name a node",
		`lease = "1s"`:                  "too short",
		"lease = \"5s\"\n  coordinators = [\"a:1\", \"b:1\", \"c:1\"]":                   "elect a leader",
		"coordinators = [\"a:1\"]\n  nats {\n    urls = [\"tls://x\"]\n  }":              "external NATS",
		"nats {\n    urls = [\"tls://x\"]\n    certificate = \"x.pem\"\n  }":             "needs its key",
		"nats {\n    urls = []\n  }":                                                     "No server is named",
		"workspace \"a b\" {\n    path = \"/x\"\n  }":                                    "cannot name a workspace",
		"workspace \"a\" {\n    path = \"/x\"\n  }\n}\nworkspace {\n  mode = \"branch\"": "cannot work in branches",
	} {
		_, err := config.Parse([]byte("fleet {\n  "+text+"\n}"), "fleet.hcl", config.Environment{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSharedDigest checks that nodes with the same configuration have the same digest, although their own settings
// differ.
func TestSharedDigest(t *testing.T) {
	digest := func(text string) string {
		cfg, err := config.Parse([]byte(text), "fleet.hcl", config.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		return cfg.SharedDigest()
	}
	one := digest("fleet {\n  node = \"one\"\n}\nhost {\n  state_dir = \"/a\"\n  max_parallel = 3\n}")
	if digest("# a comment\nhost {\n  max_parallel = 3\n  state_dir = \"/b\"\n}\nfleet {\n  node = \"two\"\n}") != one {
		t.Error("settings of one node change the digest")
	}
	if digest("fleet {}\nhost {\n  max_parallel = 4\n}") == one {
		t.Error("a limit does not change the digest")
	}
}
