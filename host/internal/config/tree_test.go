package config_test

import (
	"bufio"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
)

// TestReferenceIsWhole checks that the reference documents every setting of a configuration and nothing else.
func TestReferenceIsWhole(t *testing.T) {
	used := make(map[string]bool)
	var walk func(b *config.Block)
	walk = func(b *config.Block) {
		use := func(path, doc string) {
			if doc == "" {
				t.Errorf("reference.txt has no line for %s", path)
			}
			parts := strings.Split(path, ".")
			used[path] = true
			if len(parts) == 3 {
				used[parts[0]+".*."+parts[2]] = true
			}
		}
		if b.Path != "" {
			use(b.Path, b.Doc)
		}
		for _, a := range b.Attributes {
			use(strings.TrimPrefix(b.Path+"."+a.Name, "."), a.Doc)
			if a.Type == "" {
				t.Errorf("%s.%s has no type", b.Path, a.Name)
			}
		}
		for _, inner := range b.Blocks {
			walk(inner)
		}
	}
	walk(config.Schema())
	f, err := os.Open("reference.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		path, _, ok := strings.Cut(line, " | ")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !ok || strings.Count(line, " | ") < 3 || !used[path] {
			t.Errorf("reference.txt has a line that is about nothing, or is not whole: %s", line)
		}
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
