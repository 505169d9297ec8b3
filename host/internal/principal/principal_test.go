package principal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestToolAllowed(t *testing.T) {
	for _, c := range []struct {
		tools, fields []string
		allowed       string
		denied        string
	}{
		{nil, nil, "read bash jira:search", ""},
		{[]string{"read", "g*"}, nil, "read grep glob", "bash write jira:search"},
		{[]string{"read"}, []string{"jira"}, "read jira:search", "bash git:log"},
		{nil, []string{"jira"}, "read bash jira:search", "git:log"},
		{[]string{"jira:s*"}, nil, "jira:search", "read jira:delete"},
		{[]string{"*"}, nil, "read bash jira:search", ""},
		{[]string{}, []string{}, "", "read jira:search"},
	} {
		p := &Principal{Grant: Grant{Rights: Call, Tools: c.tools, Fields: c.fields}}
		check := func(names string, want bool) {
			for _, name := range strings.Fields(names) {
				ns, tool, field := strings.Cut(name, ":")
				if !field {
					ns, tool = "", name
				}
				if p.ToolAllowed(ns, tool) != want {
					t.Errorf("tools %q, fields %q: %s is allowed: %t", c.tools, c.fields, name, !want)
				}
			}
		}
		check(c.allowed, true)
		check(c.denied, false)
	}
}

func TestWorkspaceAllowed(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a", "a/b", "a/b/c", "other"} {
		if err := os.MkdirAll(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("a"), at("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		workspaces      []string
		allowed, denied []string
	}{
		{nil, []string{at("other")}, []string{at("a"), "/"}}, // a nil list permits only the start workspace
		{[]string{at("a")}, []string{at("a")}, []string{at("a/b"), at("other"), dir, at("missing")}},
		{[]string{at("link")}, []string{at("a")}, []string{at("a/b")}},
		{[]string{at("a") + "/*"}, []string{at("a/b")}, []string{at("a"), at("a/b/c"), at("other")}},
		{[]string{"/*"}, []string{"/etc"}, []string{"/", at("a")}},
		{[]string{"*"}, []string{"/", at("a/b/c")}, nil},
	} {
		p := &Principal{Grant: new(places).pin(Grant{Workspaces: c.workspaces}, nil)}
		for _, path := range c.allowed {
			if !p.WorkspaceAllowed(path, at("other")) {
				t.Errorf("%q does not permit %s", c.workspaces, path)
			}
		}
		for _, path := range c.denied {
			if p.WorkspaceAllowed(path, at("other")) {
				t.Errorf("%q permits %s", c.workspaces, path)
			}
		}
	}
}

// TestReplacedWorkspace checks that no principal can redirect another principal's workspace with a link.
func TestReplacedWorkspace(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"outer/inner", "outer/many/x", "victim/x", "start", "other/late"} {
		if err := os.MkdirAll(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("outer"), at("named")); err != nil { // the operator creates this link
		t.Fatal(err)
	}
	blocks := Blocks{Principals: []Block{
		{Name: "outer", Grant: Grant{Workspaces: []string{at("outer")}}}, {Name: "inner", Grant: Grant{Workspaces: []string{at("named/inner")}}},
		{Name: "many", Grant: Grant{Workspaces: []string{at("outer/many/*")}}}, {Name: "new", Grant: Grant{Workspaces: []string{at("outer/new")}}},
		{Name: "late", Grant: Grant{Workspaces: []string{at("other/late")}}},
	}}
	allowed := func(d *Directory, name, path string) bool {
		p := &Principal{Grant: d.pin(blocks.find(name).Grant)}
		return p.WorkspaceAllowed(at(path), at("start"))
	}
	directory := func() *Directory { return NewDirectory(func() Blocks { return blocks }, nil) }
	d := directory()
	if !allowed(d, "inner", "outer/inner") || !allowed(d, "many", "outer/many/x") || !allowed(d, "outer", "outer") {
		t.Error("a workspace is not permitted")
	}
	for _, name := range []string{"outer/inner", "outer/many", "other/late"} {
		if err := errors.Join(os.RemoveAll(at(name)), os.Symlink(at("victim"), at(name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("victim"), at("outer/new")); err != nil {
		t.Fatal(err)
	}
	if allowed(d, "late", "victim") { // the first request of another principal already pinned the workspaces
		t.Error("a link leads to a workspace of a principal that was not there yet")
	}
	for _, d := range []*Directory{d, directory()} { // the links have no effect until the next start
		if allowed(d, "inner", "victim") || allowed(d, "many", "victim/x") || allowed(d, "new", "victim") {
			t.Error("a link leads to a workspace")
		}
		if !allowed(d, "outer", "outer") {
			t.Error("a workspace is not permitted")
		}
	}
	if err := os.Rename(at("start"), at("elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("victim"), at("start")); err != nil {
		t.Fatal(err)
	}
	if Anonymous().WorkspaceAllowed(at("victim"), at("start")) {
		t.Error("a link in place of the start workspace is permitted")
	}
}

func TestSessionID(t *testing.T) {
	for _, p := range []*Principal{{Name: "a"}, {Name: "b", Local: true}} {
		for _, id := range []string{"a\x00b", "a\nb", "\x1b[31m", "\xff", strings.Repeat("x", maxID+1)} {
			if key, err := p.SessionKey(id, "/w"); err == nil {
				t.Errorf("%q has the key %q", id, key)
			}
		}
		if _, err := p.SessionKey(strings.Repeat("ä", maxID/2), "/w"); err != nil {
			t.Error(err)
		}
	}
}

// FuzzSessionKey checks that different principals, workspaces and ids never have the same key.
func FuzzSessionKey(f *testing.F) {
	f.Add("a", "/w", "s", "b", "/w", "s")
	f.Add("a:1:/", "/w", "s", "a", "/:/w", "s")
	f.Add("a", "/w", "", "", "/w", "principal:a:2:/w:")
	f.Fuzz(func(t *testing.T, name1, workspace1, id1, name2, workspace2, id2 string) {
		key := func(name, workspace, id string) (string, bool) {
			p := &Principal{Name: name, Local: name == ""}
			k, err := p.SessionKey(id, workspace)
			return k, err == nil
		}
		k1, ok1 := key(name1, workspace1, id1)
		k2, ok2 := key(name2, workspace2, id2)
		same := name1 == name2 && workspace1 == workspace2 && id1 == id2
		if local := name1 == "" && name2 == ""; ok1 && ok2 && !local && !same && k1 == k2 {
			t.Errorf("%q %q %q and %q %q %q have the key %q", name1, workspace1, id1, name2, workspace2, id2, k1)
		}
	})
}

func TestMayAnswer(t *testing.T) {
	boss := &Principal{Name: "boss", Grant: Grant{Rights: Answer, AnswersFor: []string{"alice", "staff"}}}
	for asker, want := range map[string]bool{"alice": true, "staff/7": true, "bob": false, "boss": false, "alicex": false} {
		if boss.MayAnswer(asker) != want {
			t.Errorf("%s: %t", asker, !want)
		}
	}
	if all := (&Principal{Name: "x", Grant: Grant{Rights: Answer}}); !all.MayAnswer("bob") || all.MayAnswer("x") {
		t.Error("a principal without answers_for answers for all others, and never for itself")
	}
	if (&Principal{Name: "x", Grant: Grant{Rights: Call | Log}}).MayAnswer("bob") {
		t.Error("a principal without the right answers")
	}
}

// TestWithin checks that an endpoint only removes tools of a principal.
func TestWithin(t *testing.T) {
	bob := &Principal{Name: "bob", Grant: Grant{Rights: Call, Tools: []string{"read", "erp:get_*"}}}
	for _, tc := range []struct {
		tools []string
		calls map[string]bool
	}{
		{nil, map[string]bool{"read": true, "edit": false, "erp:get_a": true, "erp:put_a": false}},
		{[]string{"*", "*:*"}, map[string]bool{"read": true, "edit": false, "erp:get_a": true, "erp:put_a": false}},
		{[]string{"edit", "erp:*"}, map[string]bool{"read": false, "edit": false, "erp:get_a": true, "erp:put_a": false}},
		{[]string{}, map[string]bool{"read": false, "edit": false, "erp:get_a": false}},
	} {
		text, err := bob.Within("x", tc.tools).Encode()
		if err != nil {
			t.Fatal(err)
		}
		p, err := Decode(text) // as another host gets it
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range tc.calls {
			namespace, short, ok := strings.Cut(name, ":")
			if !ok {
				namespace, short = "", name
			}
			if got := p.ToolAllowed(namespace, short); got != want {
				t.Errorf("%v: %s is %v", tc.tools, name, got)
			}
		}
		if p.Name != bob.Name || p.Owner() != bob.Owner() || bob.Endpoint("", "read") != "" {
			t.Errorf("%v: another identity", tc.tools)
		}
	}
}
