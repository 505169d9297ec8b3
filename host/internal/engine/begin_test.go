package engine

import (
	"fmt"
	"os"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
)

// TestASwapWhileARequestArrives checks a reload that ends after a request took its generation. All that is decided about the
// request belongs to one generation: its own, or the newest if its plugin was retired.
func TestASwapWhileARequestArrives(t *testing.T) {
	for name, tc := range map[string]struct{ replaced bool }{"the plugin stays": {false}, "the plugin is replaced": {true}} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, "")
			other := f.directory("other")
			configure := func(more string) {
				text := fmt.Sprintf("bundled = false\nsandbox {\n  enforce = \"off\"\n%s\n}\n%s", more, f.Plugin("p", ""))
				if err := os.WriteFile(f.Config(), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if r := f.reload(); r.Refused() {
					t.Fatalf("%+v", r)
				}
			}
			configure(fmt.Sprintf("  root %q {\n    writable = true\n  }", other))
			old := f.Current()
			if tc.replaced {
				f.Write("p", "version=2.0.0")
			}
			configure("")
			req := Request{Session: "a", Name: "write", Arguments: []byte(`{"path":"../other/x","text":"y"}`)}
			res := f.begin(old, req, answer.Nobody{}).Run(t.Context())
			if tc.replaced {
				failsWith(t, res, tool.Security, "outside")
			} else {
				succeeds(t, res, "written")
			}
			failsWith(t, f.run(req), tool.Security, "outside")
		})
	}
}
