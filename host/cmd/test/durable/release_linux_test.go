package durable

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestReleaseRefusesForeignPrograms checks a program that only has the name of a bundled plugin. A release must not
// offer the tools of this program, even if the description of the program is stored.
func TestReleaseRefusesForeignPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "plugins"), 0o755); err != nil {
		t.Fatal(err)
	}
	var table []string
	for _, name := range []string{"read", "bash"} {
		b, err := os.ReadFile(filepath.Join(hosttest.Bin, "plugins", name))
		if err != nil {
			t.Fatal(err)
		}
		table = append(table, fmt.Sprintf("%s:%d:%x", name, len(b), sha256.Sum256(b)))
		if name == "read" {
			b = append(b, "other"...)
		}
		manifest, err := os.ReadFile(filepath.Join(hosttest.Bin, "plugins", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{name: b, name + ".json": manifest} {
			if err := os.WriteFile(filepath.Join(dir, "plugins", file), content, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"toolhost", "toolhost-sandbox", "toolhost-shim"} {
		if err := os.Link(filepath.Join(hosttest.Bin, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(dir, "release"),
		"-ldflags=-s -w -E main.entry -X toolhost.dev/host/internal/manifest.table="+strings.Join(table, ","), "toolhost.dev/host/cmd/toolhost")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ws := t.TempDir()
	run := func(program string) string {
		c := exec.CommandContext(t.Context(), filepath.Join(dir, program), "--state", dir+".state", "tools")
		c.Dir, c.Env = ws, append(os.Environ(), "XDG_CONFIG_HOME="+dir+".config")
		out, _ := c.CombinedOutput() // ignore the error: the plugin is not loaded
		return string(out)
	}
	if out := run("toolhost"); !strings.Contains(out, "\nread ") && !strings.HasPrefix(out, "read ") {
		t.Fatalf("the other host does not know the program: %s", out)
	}
	out := run("release")
	if strings.Contains(out, "\nread ") || strings.HasPrefix(out, "read ") || !strings.Contains(out, "bash") ||
		!strings.Contains(out, "Plugin read is not loaded: "+filepath.Join(dir, "plugins", "read")+" is not the program of the bundled plugin read that belongs to this version of toolhost") {
		t.Error(out)
	}
}
