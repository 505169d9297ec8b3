package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/generation"
)

// TestASwapWhileARequestArrives checks a reload that ends after a request took its generation. If the plugin stays, the
// old rules decide about the request. If the plugin is replaced, which a change of the roots does too, the new rules
// and the new roots decide. A request that has leased its plugin keeps its rules and its roots.
func TestASwapWhileARequestArrives(t *testing.T) {
	write := func(path string) Request {
		return Request{Session: "a", Name: "write", Arguments: fmt.Appendf(nil, `{"path":%q,"text":"y"}`, path)}
	}
	f := begin(t, "")
	f.directory("other")
	configure := func(root, rule string) *generation.Generation {
		text := fmt.Sprintf("bundled = false\nsandbox {\n  enforce = \"off\"\n%s}\n%s\n%s", root, rule, f.Plugin("p", ""))
		if err := os.WriteFile(f.Config(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := f.reload(); r.Refused() {
			t.Fatalf("%+v", r)
		}
		return f.Current()
	}
	root := fmt.Sprintf("  root %q {\n    writable = true\n  }\n", filepath.Join(f.Path, "other"))
	first := configure(root, "")
	late := write("../other/y")
	late.Session = "b"
	waiting := f.Begin(late, answer.Nobody{}) // its session is loaded again at its turn
	second := configure(root, "permissions {\n  deny \"r\" {\n    tool = \"write\"\n  }\n}")
	if first.Plugin("p") != second.Plugin("p") {
		t.Fatal("the plugin was replaced")
	}
	succeeds(t, f.begin(first, write("../other/x"), answer.Nobody{}).Run(t.Context()), "written")
	failsWith(t, f.run(write("../other/x")), tool.PermissionDenied, "r")

	third := configure("", "")
	if third.Plugin("p") == second.Plugin("p") {
		t.Fatal("the plugin was not replaced")
	}
	for _, g := range []*generation.Generation{first, second, third} {
		failsWith(t, f.begin(g, write("../other/y"), answer.Nobody{}).Run(t.Context()), tool.Security, "outside")
	}
	succeeds(t, waiting.Run(t.Context()), "written")
	succeeds(t, f.begin(second, write("x"), answer.Nobody{}).Run(t.Context()), "written")
}
