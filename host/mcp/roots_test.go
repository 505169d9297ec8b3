package mcp

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestChoose(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one, two := filepath.Join(dir, "a project"), filepath.Join(dir, "two")
	for _, d := range []string{one, two} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	roots := func(uris ...string) (out []*mcp.Root) { //nolint:staticcheck // clients of earlier revisions have roots
		for _, u := range uris {
			out = append(out, &mcp.Root{URI: u}) //nolint:staticcheck // as above
		}
		return out
	}
	file := func(path string) string { return "file://" + path }
	for name, tc := range map[string]struct {
		start string
		roots []*mcp.Root //nolint:staticcheck // as above
		want  string
	}{
		"none":            {two, nil, ""},
		"first":           {"/", roots(file(dir+"/a%20project"), file(two)), one},
		"start inside":    {two, roots(file(one), file(two)), ""},
		"missing":         {"/", roots(file(dir+"/no"), file(two)), two},
		"not files":       {"/", roots("https://example.org/", "file://elsewhere"+two, "file:two", "%"), ""},
		"this host":       {"/", roots("file://localhost" + two), two},
		"start is parent": {dir, roots(file(one)), one},
	} {
		if got := choose(tc.start, tc.roots); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
