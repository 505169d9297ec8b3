package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestToolsOfProjects checks what a block about a tool in a project file does that nobody trusts: values that permit
// less apply, and any other value applies in no way and makes the file need trust.
func TestToolsOfProjects(t *testing.T) {
	on := true
	for text, want := range map[string]struct {
		complete bool
		enabled  bool
		limit    int
	}{
		"enabled = false":                      {true, false, 4},
		"max_concurrent = 2":                   {true, true, 2},
		"max_concurrent = 9":                   {true, true, 4},
		"enabled = false\nmax_concurrent = 2":  {true, false, 2},
		"":                                     {true, true, 4},
		"enabled = true":                       {false, true, 4},
		"max_concurrent = -5":                  {false, true, 4},
		"max_concurrent = 0":                   {false, true, 4},
		"enabled = \"no\"":                     {false, true, 4},
		"enabled = false\ntimeout = \"1ms\"":   {false, false, 4},
		"priority = 9":                         {false, true, 4},
		"max_concurrent = 2\nenabled = nobody": {false, true, 2},
		"max_concurrent = 2\nnothing = 1":      {false, true, 2},
	} {
		path := filepath.Join(t.TempDir(), "project.hcl")
		if err := os.WriteFile(path, []byte("tool \"x\" {\n"+text+"\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		n := ReadNarrowing(path)
		cfg := &Config{files: make(map[string][]byte), Tools: map[string]Tool{"x": {Enabled: &on, MaxConcurrent: 4, Priority: 1}}}
		n.Apply(cfg)
		is := cfg.Tools["x"]
		if n.Complete != want.complete || *is.Enabled != want.enabled || is.MaxConcurrent != want.limit || is.Timeout != 0 || is.Priority != 1 {
			t.Errorf("%q: complete %t, enabled %t, %+v", text, n.Complete, *is.Enabled, is)
		}
	}
}
