//go:build docs

package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewBundledPlugin adds a bundled plugin to a copy of the repository. The plugin needs only its directory, a
// line in go.work and a line in CHANGELOG.md. After a build, the host must offer the plugin's tool.
func TestNewBundledPlugin(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	r, _ := repository(t, nil)
	source := r.Root
	r.Root = t.TempDir()
	copyTree(t, source, r.Root)
	// If the copy contains the built programs, the build links only outdated programs. Otherwise it links all programs.
	if err := os.CopyFS(r.Path("bin"), os.DirFS(filepath.Join(source, "bin"))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	sh := func(dir, name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = r.Path(dir)
		c.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath", "XDG_CONFIG_HOME="+t.TempDir())
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	edit := func(file, old, replacement string) {
		t.Helper()
		b, err := os.ReadFile(r.Path(file))
		if err != nil || !strings.Contains(string(b), old) {
			t.Fatalf("%s has no %q, %v", file, old, err)
		}
		if err := os.WriteFile(r.Path(file), []byte(strings.Replace(string(b), old, replacement, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	sh(".", "go", "run", "./host/cmd/toolhost", "plugin", "new", "greeter", "--dir", "plugins/greeter", "--sdk", "sdk")
	edit("plugins/greeter/toolhost-plugin.json", `"needs": {}`, `"needs": {}, "bundled": {"default": 7, "profile": {"roots": "none"}}`)
	sh("plugins/greeter", "go", "mod", "edit", "-module=toolhost.dev/plugins/greeter", "-replace=toolhost.dev/sdk=../../sdk")
	edit("go.work", "./plugins/read", "./plugins/greeter\n\t./plugins/read")
	edit("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n- Greeter: a tool that greets.\n")

	sh(".", "make", "build", "check-plugins")
	if out := sh(".", "bin/toolhost", "--state", t.TempDir(), "tools"); !strings.Contains(out, "\ngreeter ") {
		t.Errorf("the tools are\n%s", out)
	}
	if out := sh(".", "bin/toolhost", "--state", t.TempDir(), "run", "greeter World"); out != "Hello, World\n" {
		t.Errorf("the tool answers %q", out)
	}
	sh("host", "go", "test", "-count=1", "-run", "^TestImportRules$", ".")
}

// copyTree copies the files of a repository that are tracked or not ignored.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	c := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	c.Dir = from
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		st, err := os.Lstat(filepath.Join(from, name))
		if err != nil || !st.Mode().IsRegular() { // skip deleted files and links
			continue
		}
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name), st.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(from, to string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
