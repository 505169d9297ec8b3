package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

func TestChoose(t *testing.T) {
	whole := Kernel{Launcher: "/l", ABI: 7, Seccomp: true, Namespaces: true}
	bare := Kernel{Launcher: "/l", ABI: 4, Seccomp: true, NoNamespaces: "forbidden"}
	for _, tc := range []struct {
		kernel  Kernel
		want    string
		backend Backend
		why     string // part of the reason; empty if no reason is expected
	}{
		{whole, "auto", Namespaces{}, ""}, {whole, "ns", Namespaces{}, ""}, {whole, "landlock", Landlock{}, ""}, {whole, "none", None{}, ""},
		{bare, "auto", Landlock{}, ""}, {bare, "ns", Landlock{}, "forbidden"}, {bare, "none", None{}, ""},
		{Kernel{Launcher: "/l", Seccomp: true}, "auto", None{}, "5.13"},
		{Kernel{Launcher: "/l", ABI: 7}, "auto", None{}, "system call filters"},
		{Kernel{NoLauncher: "not installed", ABI: 7, Seccomp: true}, "landlock", None{}, "not installed"},
	} {
		backend, err := tc.kernel.Choose(tc.want)
		if backend != tc.backend || (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%+v, %s: %s, %v", tc.kernel, tc.want, backend, err)
		}
	}
}

// profiles contains profiles for programs of different kinds.
var profiles = map[string]Profile{"alone": {NoRoots: true}, "reader": {}, "writer": {WriteRoots: true}, "shell": {WriteRoots: true, StartProcesses: true}}

func TestPolicy(t *testing.T) {
	state := t.TempDir()
	static := filepath.Join(state, "static")
	if err := os.WriteFile(static, []byte("no ELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	at := Place{
		Binary: static, Roots: []tool.Root{{Path: "/w", Writable: true}, {Path: "/r"}}, SocketDir: "/s", StateDir: state, Run: []string{"/shim"},
		Env: []string{"HOME=/home/u", "PATH=/home/u/bin:/home:/home/u:/:relative:/x", "GOCACHE=/own"},
	}
	for _, tc := range []struct {
		name             string
		write, read, run []string
		notRun           string
	}{
		{"reader", []string{"/s", state}, []string{"/w", "/r"}, []string{static}, "/usr"},
		{"alone", []string{"/s", state}, nil, []string{static}, "/w"},
		{"writer", []string{"/w", "/s", state}, []string{"/r"}, []string{static}, "/usr"},
		{"shell", []string{"/w", "/s", state}, nil, []string{"/r", "/usr", "/shim", "/home/u/bin", "/x"}, "/home"},
	} {
		p, env, err := profiles[tc.name].Policy(at, 7)
		if err != nil || !slices.Equal(p.Write, tc.write) {
			t.Errorf("%s writes %v, want %v (%v)", tc.name, p.Write, tc.write, err)
		}
		for _, r := range tc.read {
			if !slices.Contains(p.Read, r) {
				t.Errorf("%s does not read %s", tc.name, r)
			}
		}
		for _, r := range tc.run {
			if !slices.Contains(p.Run, r) {
				t.Errorf("%s does not run %s", tc.name, r)
			}
		}
		for _, r := range []string{tc.notRun, "/", "/home/u", "relative"} {
			if slices.Contains(p.Run, r) || slices.Contains(p.Read, r) {
				t.Errorf("%s reaches %s", tc.name, r)
			}
		}
		if p.StartProcesses != (tc.name == "shell") || p.Network {
			t.Errorf("%s: %+v", tc.name, p)
		}
		if tc.name == "shell" && (lookup(env, "TMPDIR") != filepath.Join(state, "tmp") || lookup(env, "GOCACHE") != "/own" || lookup(env, "XDG_CACHE_HOME") == "") {
			t.Errorf("the environment is %v", env)
		}
	}
}

// TestProtected checks which files in a writable root are protected, if the root is a view of another directory.
func TestProtected(t *testing.T) {
	view := t.TempDir()
	for _, name := range []string{"settings", "kept/file", ".git/HEAD", ".git/objects/x", ".git/refs/x", "other"} {
		path := filepath.Join(view, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	at := Place{
		Binary: "/bin/true", Roots: []tool.Root{{Path: "/w", Writable: true}}, Protect: []string{"/w/kept/file", "/w/none", "/x/other"}, ProtectNames: []string{"settings", "missing"},
		OnHost: func(path string) string { return view + strings.TrimPrefix(path, "/w") },
	}
	p, _, err := profiles["writer"].Policy(at, 7)
	must(t, err)
	if want := []string{"/w/settings", "/w/kept/file", "/w/.git/hooks", "/w/.git/config"}; !slices.Equal(p.Protected, want) {
		t.Errorf("protected: %q, want %q", p.Protected, want)
	}
	if want := []string{"/w/kept", "/w/.git"}; !slices.Equal(p.Fixed, want) {
		t.Errorf("fixed: %q, want %q", p.Fixed, want)
	}
	at.OnHost = nil
	if p, _, err = profiles["writer"].Policy(at, 7); err != nil || len(p.Protected)+len(p.Fixed) > 0 {
		t.Errorf("there is no /w: %q %q %v", p.Protected, p.Fixed, err)
	}
}

func TestBinaryKind(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string][]string{
		"#!/no/such -x\n": {"/no/such"}, "#!/usr/bin/env python3\n": system, "#!\n": nil, "": nil, "\x7fELF": nil,
	} {
		path := filepath.Join(dir, "p")
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		got := binaryKind(path)
		if !slices.Equal(got.interpreters, want) || got.static == strings.HasPrefix(text, "#!") {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestMultiCall checks which files are reported because an allowed program shares its file with other programs. A file
// with few names must not be reported.
func TestMultiCall(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"box", "snake", "alone"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/true\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"list": "box", "remove": "box", "snake3": "snake"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"copy": "box", "move": "box"} {
		if err := os.Link(filepath.Join(dir, target), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	describes := func(listed ...string) (out []string) {
		for _, text := range MultiCall(listed, dir) {
			if strings.Contains(text, "box") {
				out = append(out, text)
			}
		}
		return out
	}
	want := "list can be executed as box, copy, move, remove, which the same file contains"
	if got := describes("li*", "snake", "alone"); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := describes("snake", "alone"); len(got) > 0 {
		t.Errorf("no listed program shares its file: %q", got)
	}
	if got := describes("list", "box", "copy", "move", "remove"); len(got) > 0 {
		t.Errorf("all names are listed: %q", got)
	}
	for _, text := range MultiCall([]string{"snake"}, dir) {
		if strings.Contains(text, "snake") {
			t.Errorf("a program with two names: %q", text)
		}
	}
}

// TestDirectoriesOfLibraries checks that a directory does not become executable if it is writable or contains a
// writable directory.
func TestDirectoriesOfLibraries(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(top, "work", "root")
	for _, dir := range []string{filepath.Join(root, "lib"), filepath.Join(top, "lib")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	e := executables{writable: []string{root}, found: make(map[string]bool)}
	for path, want := range map[string]bool{top: false, filepath.Dir(root): false, root: false, filepath.Join(root, "lib"): false, filepath.Join(top, "lib"): true, "/": false} {
		if e.dir(path); e.found[path] != want {
			t.Errorf("%s: %t, want %t", path, e.found[path], want)
		}
	}
	all := executables{writable: []string{"/"}, found: make(map[string]bool)}
	if all.matches("/usr/bin/env", false); len(all.found) > 0 {
		t.Errorf("tools can write everywhere, and these programs may run although no path names them: %v", all.found)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
