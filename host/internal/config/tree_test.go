package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
)

// TestEveryAttribute checks what follows from the row of each attribute: it is in the reference, it decides whether it
// limits tools, a file can set it, and the host evaluates what the file has.
func TestEveryAttribute(t *testing.T) {
	seen := 0
	var walk func(b *config.Block, head, tail string)
	walk = func(b *config.Block, head, tail string) {
		if b.Path != "" {
			head, tail = head+b.Name+strings.Repeat(` "x"`, len(b.Labels))+" {\n", "}\n"+tail
			if b.Doc == "" {
				t.Errorf("%s has no description", b.Path)
			}
		}
		for _, a := range b.Attributes {
			seen++
			if a.Type == "" || a.Doc == "" || a.Rights == 0 {
				t.Errorf("%s.%s lacks a type, a description, or rights: %+v", b.Path, a.Name, a)
			}
			if b.Path == "variable" && a.Name == "type" { // a type is no expression
				continue
			}
			text := head + a.Name + " = nosuch\n"
			for _, other := range b.Attributes {
				if other.Required && other.Name != a.Name {
					text += other.Name + " = null\n"
				}
			}
			text += tail
			text = strings.Replace(text, `quota "x"`, `quota "principal:*"`, 1)
			if strings.HasPrefix(text, "field ") {
				text = strings.TrimSuffix(text, "}\n") + "mcp {}\n}\n"
			}
			_, _, err := load(t, map[string]string{"x.hcl": text})
			if line := fmt.Sprintf("x.hcl:%d:", strings.Count(head, "\n")+1); err == nil || !strings.Contains(err.Error(), line) || !strings.Contains(err.Error(), "nosuch") {
				t.Errorf("%s.%s is not evaluated: %v", b.Path, a.Name, err)
			}
		}
		for _, inner := range b.Blocks {
			walk(inner, head, tail)
		}
	}
	walk(config.Schema(), "", "")
	if seen < 200 {
		t.Errorf("the schema has only %d attributes", seen)
	}
}

// TestTreeMeansTheSame adds all default values from the reference to the example configuration. The meaning of the
// configuration must not change, so these values must equal the default values in the code.
func TestTreeMeansTheSame(t *testing.T) {
	for name, text := range map[string]string{"the tour": tour(t), "nothing": "", "a little": "sandbox {\n  deny = [\"**/x\"]\n}\nplugin \"a\" {\n  path = \"x\"\n}\n"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "docs"), 0o700); err != nil {
			t.Fatal(err)
		}
		read := func(file, text string) *config.Config {
			path := filepath.Join(dir, file)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Load(path, config.Environment{BundledDir: "/bundled"})
			if err != nil {
				t.Fatalf("%s, %s: %v\n%s", name, file, err, text)
			}
			return c
		}
		c := read("a.hcl", text)
		for _, defaults := range []bool{false, true} {
			again := read("b.hcl", c.Tree(config.TreeOptions{Defaults: defaults}).HCL())
			for what, pair := range map[string][2]any{
				"host": {c.Host, again.Host}, "sandbox": {c.Sandbox, again.Sandbox}, "reload": {c.Reload, again.Reload}, "audit": {c.Audit, again.Audit},
				"left out": {c.LeftOut, again.LeftOut}, "tests": {len(c.Permissions.Tests), len(again.Permissions.Tests)}, "rules": {len(c.Permissions.Rules), len(again.Permissions.Rules)},
				"default": {c.Permissions.Default == "" || c.Permissions.Default == "allow", again.Permissions.Default == "" || again.Permissions.Default == "allow"},
				"tools":   {len(c.Tools), len(again.Tools)}, "aliases": {len(c.Aliases), len(again.Aliases)}, "plugins": {len(c.Plugins), len(again.Plugins)},
			} {
				if !reflect.DeepEqual(normal(pair[0]), normal(pair[1])) {
					t.Errorf("%s, defaults %v: %s is\n%+v, and was\n%+v", name, defaults, what, pair[1], pair[0])
				}
			}
			for _, p := range c.Plugins {
				q := again.Plugin(p.Name)
				if q == nil || q.Path != p.Path || string(q.Config) != string(p.Config) || !reflect.DeepEqual(q.Confinement, p.Confinement) {
					t.Errorf("%s, defaults %v: plugin %s is\n%+v, and was\n%+v", name, defaults, p.Name, q, p)
				}
			}
		}
	}
}

// normal replaces nil lists by empty lists, so that a comparison treats them as equal.
func normal(v any) any {
	if s, ok := v.(config.Sandbox); ok {
		s.Allow, s.Deny = append([]string{}, s.Allow...), append([]string{}, s.Deny...)
		return s
	}
	return v
}

func tour(t *testing.T) string {
	b, err := os.ReadFile("../../../config.hcl")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTreeHidesSecrets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.hcl")
	text := `
variable "key" {
  default   = "k3y-of-all"
  sensitive = true
}
variable "n" {
  default   = 4711
  sensitive = true
}
locals { text = "x${var.key}" }
plugin "p" {
  path = "p"
  args = [local.text, "plain"]
  env  = { API_TOKEN = "t0ken", MODE = "m", N = var.n }
  config {
    a = { b = [var.key] }
    nested { password = "pw" }
  }
}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Tree(config.TreeOptions{Mask: func(name, text string) string {
		if name == "API_TOKEN" || name == "password" {
			return "*"
		}
		return text
	}}).HCL()
	for _, secret := range []string{"k3y-of-all", "t0ken", "pw", "4711"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is shown:\n%s", secret, got)
		}
	}
	for _, shown := range []string{`"plain"`, `# var.key = "(sensitive)", from `, `API_TOKEN = "*"`, "a.hcl:13"} {
		if !strings.Contains(got, shown) {
			t.Errorf("%s is not shown:\n%s", shown, got)
		}
	}
}
