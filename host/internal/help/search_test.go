package help_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/router"
)

// TestSearch compares the answers to searches with a golden file.
func TestSearch(t *testing.T) {
	r := filled(t)
	x := new(help.Index)
	var got strings.Builder
	for _, command := range []string{
		"help --search write a file", "help --search issues --detail schema", "help --search issues --namespace jira --limit 1", "help --search xyzzy", "help --search",
		"help --search issues --namespace field:jra", "help --search x --limit 0", "help --search x --depth 1", "help --search seen", "help --search='write' --limit=1",
	} {
		c := router.Parse(command, r, router.Options{})
		got.WriteString("$ " + command + "\n")
		if c.Error != nil {
			got.WriteString("error: " + c.Error.Message + "\n\n")
			continue
		}
		if c.Search == nil {
			t.Fatalf("%s: %+v", command, c)
		}
		res := help.Search(x, help.View{Registry: r}, c.Search)
		if res.Error != nil {
			got.WriteString("error: " + res.Error.Message + "\n\n")
			continue
		}
		got.WriteString(res.Output + "\n\n")
	}
	golden := filepath.Join("testdata", "search")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != got.String() {
		t.Errorf("%v\n%s", err, got.String())
	}
}

// TestView checks that no command of help mentions a tool that the caller may not call.
func TestView(t *testing.T) {
	r := filled(t)
	x := new(help.Index)
	for _, seen := range []bool{true, false} {
		v := help.View{Registry: r, Allowed: func(e *registry.Entry) bool { return seen || e.Namespace != "jira" }}
		for _, command := range []string{"help", "field:jira --help", "field:jira search -h", "help --search issues", "help --search"} {
			c := router.Parse(command, r, router.Options{})
			res := help.Result(v, c)
			if c.Search != nil {
				res = help.Search(x, v, c.Search)
			}
			text := res.Output
			if res.Error != nil {
				text = res.Error.Message
			}
			if got := strings.Contains(text, "jira") || strings.Contains(text, "issues"); got != seen {
				t.Errorf("%s, allowed %v: %s", command, seen, text)
			}
		}
	}
}
