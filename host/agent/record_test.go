package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testPlace(t *testing.T) (*Agent, *Place, Store) {
	t.Helper()
	a, err := Find("gemini")
	if err != nil {
		t.Fatal(err)
	}
	return a, &Place{Project: true, Dir: t.TempDir(), Server: "toolhost", Getenv: func(string) string { return "" }}, Store{Dir: t.TempDir()}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestConcurrentWriter checks that a file is not overwritten if another program changes the file after the plan was
// created.
func TestConcurrentWriter(t *testing.T) {
	for _, before := range []string{"", "{}"} {
		a, p, store := testPlace(t)
		path := filepath.Join(p.Dir, ".gemini", "settings.json")
		if before != "" {
			write(t, path, before)
		}
		plan, err := a.Plan(p, &Target{Program: "toolhost"})
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, `{"theme": "mine"}`)
		if err := store.Write(plan); err == nil || !strings.Contains(err.Error(), "another program changed it meanwhile; run the command again") {
			t.Errorf("%q: %v", before, err)
		}
		if got := read(t, path); got != `{"theme": "mine"}` {
			t.Errorf("%q: the file was overwritten: %s", before, got)
		}
	}
}

// TestRepeatedSetUp checks that Undo restores the content before the first setup, even after a second setup.
func TestRepeatedSetUp(t *testing.T) {
	a, p, store := testPlace(t)
	path := filepath.Join(p.Dir, ".gemini", "settings.json")
	const first = `{"tools": {"exclude": ["glob"]}}`
	write(t, path, first)
	for _, self := range []string{"/one/toolhost", "/two/toolhost"} {
		plan, err := a.Plan(p, &Target{Program: self})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Write(plan); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); !strings.Contains(got, self) {
			t.Errorf("%s is not in %s", self, got)
		}
	}
	undo := func() {
		t.Helper()
		plan, err := store.Undo(a, p)
		if err == nil {
			err = store.Restore(plan)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	undo()
	if got := read(t, path); got != first {
		t.Errorf("%s, want %s", got, first)
	}

	// Test again, now with an edit by another program between the two setups.
	for _, self := range []string{"/one/toolhost", "/two/toolhost"} {
		plan, err := a.Plan(p, &Target{Program: self})
		if err == nil {
			err = store.Write(plan)
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, strings.Replace(read(t, path), `{"tools"`, `{"theme": "x", "tools"`, 1))
	}
	undo()
	got := read(t, path)
	for _, stays := range []string{`"theme": "x"`, `"glob"`} {
		if !strings.Contains(got, stays) {
			t.Errorf("%s is gone: %s", stays, got)
		}
	}
	for _, goes := range []string{"toolhost", "read_file"} {
		if strings.Contains(got, goes) {
			t.Errorf("%s stays: %s", goes, got)
		}
	}
}

// TestServersOfProjects checks the treatment of an existing server in the settings of a project. A setup must correct
// the program path of the server. It must refuse an entry with additional settings, because environment variables could
// make the server run other programs.
func TestServersOfProjects(t *testing.T) {
	a, p, _ := testPlace(t)
	path := filepath.Join(p.Dir, ".gemini", "settings.json")
	for entry, refused := range map[string]bool{
		`"command": "./toolhost", "args": ["mcp"]`:                                   false,
		`"command": "toolhost", "args": ["mcp"], "env": {"LD_PRELOAD": "./evil.so"}`: true,
		`"command": "toolhost", "args": ["mcp"], "cwd": "evil"`:                      true,
		`"command": "toolhost", "args": ["mcp", "--config", "evil.hcl"]`:             true,
		`"command": "./evil", "args": ["toolhost", "mcp"]`:                           true,
	} {
		write(t, path, `{"mcpServers": {"toolhost": {`+entry+`}}}`)
		plan, err := a.Plan(p, &Target{Program: "/this/toolhost"})
		if (err != nil) != refused {
			t.Errorf("%s: %v", entry, err)
		}
		if err == nil && !strings.Contains(string(plan.Changes[0].After), `"/this/toolhost"`) {
			t.Errorf("%s: %s", entry, plan.Changes[0].After)
		}
	}
}

// TestRefusedFiles checks which files a setup does not write: a file outside the project to which a link in the project
// leads, and a read-only file.
func TestRefusedFiles(t *testing.T) {
	a, p, store := testPlace(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(p.Dir, ".gemini")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Plan(p, &Target{Program: "toolhost"}); err == nil || !strings.Contains(err.Error(), "is a link out of the project") {
		t.Errorf("a link out of the project: %v", err)
	}

	p.Dir = t.TempDir()
	path := filepath.Join(p.Dir, ".gemini", "settings.json")
	write(t, path, "{}")
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	plan, err := a.Plan(p, &Target{Program: "toolhost"})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Write(plan); err == nil || !strings.Contains(err.Error(), "is read-only; make it writable") {
		t.Errorf("a read-only file: %v", err)
	}
	if got := read(t, path); got != "{}" {
		t.Errorf("the read-only file was written: %s", got)
	}
}
