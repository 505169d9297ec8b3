//go:build docs

package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestDocumentScripts runs the scripts about new plugins, the kits for their authors, and the examples.
func TestDocumentScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, hosttest.ScriptParams(t, "testdata/docs"))
}

// TestGuideOfPlugins runs the commands in the guide for plugin authors. Then it runs the commands in the README of the
// new plugin.
func TestGuideOfPlugins(t *testing.T) {
	t.Parallel()
	g := hosttest.NewGuide(t)
	out := g.Run(".", hosttest.ShellBlocks(t, "../../../../docs/plugin-authors.md"))
	if !strings.Contains(out, "HELLO, WORLD") {
		t.Errorf("the plugin of the guide does not greet:\n%s", out)
	}
	out = g.Run("greeter", hosttest.ShellBlocks(t, filepath.Join(g.Dir, "greeter", "README.md")))
	if !strings.Contains(out, "HELLO, WORLD") {
		t.Errorf("the plugin of the README does not greet:\n%s", out)
	}
	for _, dir := range []string{".", "greeter"} { // the bundled tools must still be available
		if out := g.Run(dir, []string{"toolhost run 'read toolhost.hcl' && toolhost help greeter"}); !strings.Contains(out, "greeter") || !strings.Contains(out, "Usage: greeter") {
			t.Errorf("%s: %s", dir, out)
		}
	}
	if g.Ran < 12 {
		t.Errorf("only %d commands ran", g.Ran)
	}
}

// TestGuidesOfUse runs the commands in the README and in the guides for agents and operators.
func TestGuidesOfUse(t *testing.T) {
	t.Parallel()
	g := hosttest.NewGuide(t)
	hosttest.Must(t, os.Symlink("../bin", filepath.Join(g.Dir, "bin")))
	hosttest.Must(t, os.Mkdir(filepath.Join(g.Dir, "docs"), 0o755))
	for _, name := range []string{"go.work", "docs/agents.md", "docs/protocol.md"} {
		b, err := os.ReadFile(filepath.Join("../../../..", name))
		hosttest.Must(t, err)
		hosttest.Must(t, os.WriteFile(filepath.Join(g.Dir, name), b, 0o644))
	}
	pages, err := filepath.Glob("../../../../docs/operators/*.md")
	hosttest.Must(t, err)
	docs := []string{"README.md", "docs/agents.md", "docs/operators.md"}
	for _, page := range pages {
		if b, err := os.ReadFile(page); err != nil || bytes.Contains(b, []byte("```sh\n")) {
			docs = append(docs, "docs/operators/"+filepath.Base(page))
		}
	}
	for _, doc := range docs {
		ran := g.Ran
		if doc == "docs/operators.md" { // the guide creates tokens for principals in its own configuration
			b, err := os.ReadFile("../../../../docs/operators/principals.md")
			hosttest.Must(t, err)
			block := regexp.MustCompile("(?ms)^```hcl\n(principal \"ci\".*?)^```$").FindSubmatch(b)
			if block == nil {
				t.Fatal("docs/operators/principals.md configures no principals")
			}
			hosttest.Must(t, os.WriteFile(filepath.Join(g.Dir, "toolhost.hcl"), block[1], 0o644))
		}
		out := g.Run(".", hosttest.ShellBlocks(t, "../../../../"+doc))
		if g.Ran == ran {
			t.Errorf("no command of %s ran", doc)
		}
		if doc == "README.md" && !strings.Contains(out, "use (") {
			t.Errorf("%s shows no file:\n%s", doc, out)
		}
	}
}
