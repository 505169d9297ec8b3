package branch

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/sandbox"
)

// writer is the profile of a command that may write in the branch.
var writer = sandbox.Profile{WriteRoots: true, StartProcesses: true}

// running is a workspace with a branch in which commands run.
type running struct {
	t          *testing.T
	m          *Mounts
	b          *Branch
	dir, state string
}

func newRunning(t *testing.T, how Backend) *running {
	t.Helper()
	if err := mountable(); err != nil {
		need.Missing(t, err)
	}
	top := t.TempDir()
	r := &running{t: t, dir: filepath.Join(top, "work"), state: filepath.Join(top, "state")}
	err := errors.Join(os.Mkdir(r.dir, 0o700), os.Mkdir(filepath.Join(r.dir, "sub"), 0o700), os.WriteFile(filepath.Join(r.dir, "f"), []byte("base\n"), 0o600))
	if err == nil {
		r.m = Open(r.state)
		r.b, err = r.m.Store.Make("", r.dir, "b", how)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.m.Close()
		if err := filetree.RemoveAll(r.state); err != nil { // the kernel makes a directory there that its owner cannot read
			t.Error(err)
		}
	})
	return r
}

// run runs a script in the branch and returns its output.
func (r *running) run(p sandbox.Profile, dir, script string) (string, error) {
	r.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	err := r.m.Run(cmd, r.b, p)
	return strings.TrimSpace(out.String()), err
}

// TestRun checks that commands work in the branch alone: they see the workspace and each other's changes, and nothing
// of them is in the workspace before an apply.
func TestRun(t *testing.T) {
	for name, how := range map[string]Backend{"overlay": {}, "copy": {Copy: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRunning(t, how)
			want := func(dir, script, out string) {
				t.Helper()
				if got, err := r.run(writer, dir, script); got != out || err != nil {
					t.Errorf("%s: %q, %v, want %q", script, got, err, out)
				}
			}
			want("", "cat f; echo branch > f; echo new > sub/made; pwd", "base\n"+r.b.Tree())
			want(filepath.Join(r.dir, "sub"), "cat ../f made; pwd", "branch\nnew\n"+filepath.Join(r.b.Tree(), "sub"))
			if b, err := os.ReadFile(filepath.Join(r.dir, "f")); string(b) != "base\n" || err != nil {
				t.Errorf("the workspace has %q, %v", b, err)
			}
			// What others change in the workspace is seen, also where the kernel knew the name before.
			want("", "cat later || echo none", "cat: later: No such file or directory\nnone")
			if err := os.WriteFile(filepath.Join(r.dir, "later"), []byte("outside\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			want("", "cat later", "outside")
			if !r.m.Release(r.b.ID()) {
				t.Error("the branch is still in use")
			}
			if _, err := r.m.Store.Apply(r.b, Selection{}); err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{"f": "branch\n", "sub/made": "new\n", "later": "outside\n"} {
				if b, err := os.ReadFile(filepath.Join(r.dir, path)); string(b) != text || err != nil {
					t.Errorf("after the apply, %s has %q, %v", path, b, err)
				}
			}
		})
	}
}

// TestRunIsConfined checks that a command in a branch can read the state directory as little as other files of the
// user, and that a profile without writing forbids changes of the branch.
func TestRunIsConfined(t *testing.T) {
	r := newRunning(t, Backend{})
	secret := filepath.Join(r.state, "secret")
	if err := os.WriteFile(secret, []byte("hidden"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := r.run(writer, "", "cat "+secret); err == nil || strings.Contains(out, "hidden") {
		t.Errorf("the command reads the state directory: %q, %v", out, err)
	}
	if out, err := r.run(sandbox.Profile{StartProcesses: true}, "", "cat f; echo x > f"); err == nil || !strings.HasPrefix(out, "base") {
		t.Errorf("the command writes: %q, %v", out, err)
	}
	if changes, err := r.b.Changes(); len(changes) != 0 || err != nil {
		t.Errorf("changes %v, %v", changes, err)
	}
	// The second command sees the repository that the first one made, so its hooks are protected like those of a
	// repository in the workspace.
	if out, err := r.run(writer, "", "git init -q . && mkdir -p .git/hooks"); err != nil {
		t.Fatal(out, err)
	}
	if out, err := r.run(writer, "", "echo x > .git/hooks/pre-commit"); err == nil {
		t.Errorf("the command writes a hook: %q", out)
	}
}

// TestRunEndsProcesses checks that a process that a command leaves behind ends with it. It would otherwise write to a
// branch that is being applied.
func TestRunEndsProcesses(t *testing.T) {
	r := newRunning(t, Backend{})
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	fd := int(ours.Fd())
	cmd := exec.Command("/bin/sh", "-c", "sleep 1000 &")
	cmd.Stdout = theirs
	if err := errors.Join(r.m.Run(cmd, r.b, writer), theirs.Close(), unix.SetNonblock(fd, true)); err != nil {
		t.Fatal(err)
	}
	// The read ends when no process has the pipe open for writing.
	if n, err := unix.Read(fd, make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("a process of the command still runs: %d, %v", n, err)
	}
}
