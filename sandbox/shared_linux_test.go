package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/need"
)

// TestTemporary checks sandboxes that show a directory of the host at /tmp, and a root below /tmp. Earlier commands can
// have put anything into the directory, also links at the path of the root. Even in that case, the sandbox must not use
// anything outside.
func TestTemporary(t *testing.T) {
	launcher, escape := build(t)
	kernel := Probe(launcher, "")
	if err := (Namespaces{}).Unusable(&kernel); err != nil {
		need.Missing(t, err)
	}
	top, err := os.MkdirTemp("/tmp", "TestTemporary")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(top)) })
	base := t.TempDir()
	// Outside must not be below /tmp, which is hidden while the new root is made.
	outside, err := os.MkdirTemp("/var/tmp", "TestTemporary")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(outside)) })
	source := filepath.Join(base, "source")
	ws := filepath.Join(top, "a", "ws")
	for _, d := range []string{ws, filepath.Join(base, "state")} {
		must(t, os.MkdirAll(d, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(ws, "w"), []byte("in the root"), 0o600))
	run := func(name, binary string, args ...string) (string, error) {
		at := Place{Binary: binary, Roots: []tool.Root{{Path: ws, Writable: true}}, Temporary: tool.Root{Path: "/tmp", Source: source, Writable: true}, StateDir: filepath.Join(base, "state"), Env: []string{"PATH=/usr/bin:/bin"}}
		policy, env, err := profiles[name].Policy(at, kernel.ABI)
		must(t, err)
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Dir = env, "/"
		running, err := (Namespaces{}).Wrap(cmd, launcher, policy)
		must(t, err)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		_, err = running(cmd.Start(), nil)
		if cmd.Process != nil {
			_ = cmd.Wait()
		}
		return out.String(), err
	}
	first := "/tmp/" + filepath.Base(top)
	for name, c := range map[string]struct {
		prepare func() error
		want    string // "" if the sandbox must not start
	}{
		"empty":                          {func() error { return nil }, "in the root"},
		"a link above the root":          {func() error { return os.Symlink(outside, filepath.Join(source, filepath.Base(top))) }, ""},
		"a relative link above the root": {func() error { return os.Symlink("../.."+outside, filepath.Join(source, filepath.Base(top))) }, ""},
		"a link in place of the root": {func() error {
			dir := filepath.Join(source, filepath.Base(top), "a")
			return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(outside, filepath.Join(dir, "ws")))
		}, ""},
		"a file above the root": {func() error { return os.WriteFile(filepath.Join(source, filepath.Base(top)), nil, 0o600) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.RemoveAll(source))
			must(t, os.Mkdir(source, 0o700))
			must(t, c.prepare())
			out, err := run("shell", "/bin/bash", "-c", "echo x > /tmp/f; cat "+ws+"/w")
			if (err == nil) != (c.want != "") || !strings.Contains(out, c.want) {
				t.Errorf("error %v, output %q", err, out)
			}
			if left, _ := os.ReadDir(outside); len(left) > 0 {
				t.Errorf("the start made %v outside", left)
			}
			for _, dir := range []string{first, first + "/a"} {
				if out, err := run("shell", escape, "rename", "0", dir); (err == nil) != (c.want != "") || strings.Contains(out, "ESCAPED") {
					t.Errorf("%s, which is above a root, can be moved: %v, %s", dir, err, out)
				}
			}
			if _, err := os.Stat(filepath.Join(source, "f")); (err == nil) != (c.want != "") {
				t.Errorf("the file of the program: %v", err)
			}
		})
	}
	must(t, os.RemoveAll(source))
	must(t, os.Mkdir(source, 0o700))
	for name, may := range map[string]bool{"reader": false, "writer": true} {
		if out, err := run(name, escape, "write", "0", "/tmp/g"); err != nil || strings.Contains(out, "ESCAPED") != may {
			t.Errorf("%s: error %v, output %q", name, err, out)
		}
	}
}
