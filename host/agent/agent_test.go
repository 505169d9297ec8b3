package agent

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestFiles checks which files a plan changes for each agent, for a project and for a user, and that a written plan
// leaves nothing to change.
func TestFiles(t *testing.T) {
	for name, want := range map[string][2]string{ // for a project, and for a user
		"claude":   {".mcp.json .claude/settings.json", ".claude.json .claude/settings.json"},
		"codex":    {".codex/config.toml", ".codex/config.toml"},
		"gemini":   {".gemini/settings.json", ".gemini/settings.json"},
		"opencode": {"opencode.json", ".config/opencode/opencode.json"},
		"vscode":   {".vscode/mcp.json", map[bool]string{true: "Library/Application Support", false: ".config"}[runtime.GOOS == "darwin"] + "/Code/User/mcp.json"},
		"cursor":   {".cursor/mcp.json .cursor/permissions.json", ".cursor/mcp.json .cursor/permissions.json"},
	} {
		for i, project := range []bool{true, false} {
			p := place(t, project)
			if got := planned(t, name, p); got != want[i] {
				t.Errorf("%s, project %t: %q, want %q", name, project, got, want[i])
			}
			if got := planned(t, name, p); got != "" {
				t.Errorf("%s, project %t: the settings are not complete: %q", name, project, got)
			}
		}
	}
	if all := Names(); len(all) != 6 || !slices.IsSorted(all) {
		t.Errorf("the agents are %q", all)
	}
	if _, err := Find("curser"); err == nil || !strings.Contains(err.Error(), `Did you mean "cursor"`) {
		t.Errorf("%v", err)
	}
	if err := (&Place{Home: "relative"}).Check(); err == nil || !strings.Contains(err.Error(), "set HOME, or use --project") {
		t.Errorf("%v", err)
	}
}

// TestMovedSettings checks the variables with which a user moves the settings of an agent. They do not move those of a
// project.
func TestMovedSettings(t *testing.T) {
	for name, tc := range map[string]struct{ variable, want string }{
		"claude":   {"CLAUDE_CONFIG_DIR", "moved/.claude.json moved/settings.json"},
		"codex":    {"CODEX_HOME", "moved/config.toml"},
		"opencode": {"XDG_CONFIG_HOME", "moved/opencode/opencode.json"},
	} {
		p := place(t, false)
		p.Getenv = func(key string) string {
			if key == tc.variable {
				return filepath.Join(p.Home, "moved")
			}
			return ""
		}
		if got := planned(t, name, p); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if p.Project, p.Dir = true, p.Home; strings.Contains(planned(t, name, p), "moved") {
			t.Errorf("%s: the variable moves the settings of a project", name)
		}
	}
	p := place(t, true)
	write(t, filepath.Join(p.Dir, "opencode.jsonc"), "{} // mine\n")
	if got := planned(t, "opencode", p); got != "opencode.jsonc" {
		t.Errorf("opencode with comments: %q", got)
	}
}

func place(t *testing.T, project bool) *Place {
	t.Helper()
	dir := t.TempDir()
	return &Place{Project: project, Dir: dir, Home: dir, Server: "toolhost", Getenv: func(string) string { return "" }}
}

// planned writes the changes of a plan, and returns their paths relative to the directory.
func planned(t *testing.T, name string, p *Place) string {
	t.Helper()
	a, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := a.Plan(p, &Target{Program: "/bin/toolhost"})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range plan.Changes {
		rel, err := filepath.Rel(p.Home, c.Path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, filepath.ToSlash(rel))
		if _, err := os.Stat(c.Path); (err == nil) != c.Existed {
			t.Errorf("%s: existed %t, %v", c.Path, c.Existed, err)
		}
	}
	if err := (Store{Dir: t.TempDir()}).Write(plan); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}
