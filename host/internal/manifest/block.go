package manifest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Block returns the plugin block for a configuration. dir is the absolute directory of the plugin's sources.
func (m *Manifest) Block(dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %s {\n  path = %s\n", quote(m.Name), quote(filepath.Join(dir, m.Binary)))
	n, runtime := m.Needs, RuntimeOf(m.Runtime)
	n.Read = slices.Concat(n.Read, runtime.Read)
	var env []string
	for _, name := range slices.Concat(runtime.Env, n.Env) {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, fmt.Sprintf("    %s = %s\n", name, quote(v)))
		}
	}
	if len(env) > 0 {
		fmt.Fprintf(&b, "  env = {\n%s  }\n", strings.Join(env, ""))
	}
	if n.Network || n.Exec || len(n.Read)+len(n.Write) > 0 {
		b.WriteString("  sandbox {\n")
		if n.Network {
			b.WriteString("    network = true\n")
		}
		if n.Exec {
			b.WriteString("    exec = true\n")
		}
		list := func(name string, paths []string) {
			var quoted []string
			for _, p := range paths {
				if !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") {
					p = filepath.Join(dir, p)
				}
				quoted = append(quoted, quote(p))
			}
			if len(quoted) > 0 {
				fmt.Fprintf(&b, "    %s = [%s]\n", name, strings.Join(quoted, ", "))
			}
		}
		list("read", n.Read)
		list("write", n.Write)
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// quote returns s as an HCL string literal.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return strings.NewReplacer("${", "$${", "%{", "%%{", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}
