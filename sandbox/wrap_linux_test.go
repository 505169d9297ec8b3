package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/sandbox/confine"
)

// built contains the directory of the programs that the function build returned. TestMain removes the directory.
var built struct {
	sync.Once

	dir string
	err error
}

func TestMain(m *testing.M) {
	Init() // for the example
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// build builds the launcher and a program that tries to escape from a sandbox, and returns their paths. It builds them
// only once for all tests.
func build(t testing.TB) (launcher, escape string) {
	t.Helper()
	built.Do(func() {
		built.dir, built.err = os.MkdirTemp("", "toolhost-sandbox")
		for _, name := range []string{"cmd/toolhost-sandbox", "internal/testescape"} {
			if built.err == nil {
				built.err = compile(filepath.Join(built.dir, filepath.Base(name)), name, "-ldflags=-s -w")
			}
		}
	})
	must(t, built.err)
	return filepath.Join(built.dir, "toolhost-sandbox"), filepath.Join(built.dir, "testescape")
}

// compile builds a program of this module with the flags of the Makefile.
func compile(path, name, flags string) error {
	c := exec.Command("go", "build", "-trimpath", flags, "-o", path, "toolhost.dev/sandbox/"+name)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// TestProfiles runs a program under several profiles. It checks that required actions work and
// forbidden actions fail.
func TestProfiles(t *testing.T) {
	launcher, escape := build(t)
	kernel := Probe(launcher, "")
	for _, backend := range Backends() {
		if err := backend.Unusable(&kernel); err != nil || backend == (Landlock{}) && kernel.ABI < 6 {
			t.Logf("this machine cannot use %s: %v", backend.Name(), err)
			continue
		}
		for _, name := range []string{"reader", "writer", "shell"} {
			t.Run(fmt.Sprint(backend.Name(), "/", name), func(t *testing.T) {
				dir := t.TempDir()
				at := Place{Binary: escape, Roots: []tool.Root{{Path: filepath.Join(dir, "rw"), Writable: true}, {Path: filepath.Join(dir, "ro")}}, StateDir: filepath.Join(dir, "state"), Env: []string{"HOME=" + dir}}
				for _, d := range []string{"rw", "ro", "state", "outside", "git", "up"} {
					if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				for _, d := range []string{"git", "outside"} {
					must(t, os.WriteFile(filepath.Join(dir, d, "f"), nil, 0o600))
				}
				// Tools of another host replaced git directories by links.
				must(t, os.Symlink("outside", filepath.Join(dir, "link")))
				must(t, os.Symlink(dir, filepath.Join(dir, "up", "link")))
				at.Git = []string{filepath.Join(dir, "git"), filepath.Join(dir, "link"), filepath.Join(dir, "up/link/outside"), filepath.Join(dir, "up/link/outside/f"), filepath.Join(dir, "missing")}
				socket := filepath.Join(dir, "rw", "s")
				l, err := net.Listen("unix", socket)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						b := make([]byte, 1)
						_, _ = c.Read(b)
						_, _ = c.Write(b)
						_ = c.Close()
					}
				}()
				policy, env, err := profiles[name].Policy(at, kernel.ABI)
				if err != nil {
					t.Fatal(err)
				}
				writes, starts := name != "reader", name == "shell"
				for _, tc := range []struct {
					args []string
					may  bool
				}{
					{[]string{"write", "0", filepath.Join(dir, "state", "f")}, true},
					{[]string{"write", "0", filepath.Join(dir, "rw", "f")}, writes},
					{[]string{"write", "0", filepath.Join(dir, "ro", "f")}, false},
					{[]string{"read", "0", filepath.Join(dir, "git", "f")}, true},
					{[]string{"read", "0", filepath.Join(dir, "outside", "f")}, false},
					{[]string{"read", "0", filepath.Join(dir, "link", "f")}, false},
					{[]string{"read", "0", filepath.Join(dir, "up/link/outside/f")}, false},
					{[]string{"chmod", "0", filepath.Join(dir, "rw")}, writes},
					{[]string{"start"}, starts},
					{[]string{"path", "0", socket}, starts},
					{[]string{"datagram"}, starts},
					{[]string{"wake-at-once"}, false},
				} {
					cmd := exec.Command(escape, tc.args...)
					cmd.Env = env
					running, err := backend.Wrap(cmd, launcher, policy)
					if err != nil {
						t.Fatal(err)
					}
					var out strings.Builder
					cmd.Stdout, cmd.Stderr = &out, &out
					if _, err := running(cmd.Start(), nil); err != nil {
						t.Fatal(err)
					}
					_ = cmd.Wait()
					if got, want := strings.Contains(out.String(), "ESCAPED"), tc.may || !backend.Abilities().Confines; got != want {
						t.Errorf("%v: %v, want %v: %s", tc.args, got, want, out.String())
					}
				}
			})
		}
	}
}

// TestFailures checks that a command that cannot be confined does not start, and that the error names the reason.
func TestFailures(t *testing.T) {
	launcher, _ := build(t)
	start := func(binary, launcher string, p confine.Policy) error {
		cmd := exec.Command(binary)
		running, err := Landlock{}.Wrap(cmd, launcher, p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = running(cmd.Start(), nil)
		if cmd.Process != nil {
			_ = cmd.Wait()
		}
		return err
	}
	abi := confine.LandlockABI()
	if abi == 0 {
		need.Missing(t, errors.New("this machine has no Landlock"))
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := start(text, launcher, confine.Policy{Run: []string{text}, ABI: abi}); !errors.Is(err, syscall.ENOEXEC) {
		t.Errorf("a text: %v", err)
	}
	if err := start("/bin/true", launcher, confine.Policy{ABI: abi}); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a program that may not run: %v", err)
	}
	if err := start("/bin/true", "/nowhere", confine.Policy{ABI: abi}); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("no launcher: %v", err)
	}
}
