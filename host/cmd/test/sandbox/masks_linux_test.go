package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// secret is the content of denied files.
const secret = "S3CRET"

// masked is a workspace with denied and protected paths, together with a host that runs in this workspace.
type masked struct {
	t         *testing.T
	w         *world
	user, dir string
	in        io.WriteCloser
	out       *bufio.Scanner
	ended     func()
}

// newMasked creates the workspace. The commands use variables for the names of denied and protected paths, so that an
// analysis of the commands cannot find these names.
func newMasked(t *testing.T, user string) *masked {
	t.Helper()
	dir, err := os.MkdirTemp("", "th-masks")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &masked{t: t, w: &world{}, user: user, dir: dir}
	for _, d := range []string{"home", "run", "ws/sub/deep", "ws/secrets", "ws/deploy", "ws/inner/deep", "ws/.vscode", "ws/pkg/.claude", "ws/node_modules/a/.vscode"} {
		hosttest.Must(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	hosttest.KeptState(t, filepath.Join(dir, "state"))
	for _, f := range []string{".env", "sub/deep/.env", "secrets/key"} {
		m.write(f, secret)
	}
	for _, f := range []string{"inner/deep/keep", "deploy/x", ".vscode/tasks.json", "pkg/.claude/settings.json", "mise.toml", "notes", "node_modules/a/.vscode/x"} {
		m.write(f, "old")
	}
	hosttest.Must(t, os.Link(m.at(".env"), m.at("other")))
	hosttest.Must(t, os.Link(m.at("deploy/x"), m.at("other-x")))
	hosttest.Must(t, os.Symlink(".env", m.at("soft")))
	if user == "ordinary" {
		hosttest.Must(t, exec.Command("chown", "-hR", fmt.Sprint(ordinary), dir).Run())
		hosttest.Must(t, os.Chmod(hosttest.Bin, 0o755))
	}
	return m
}

func (m *masked) at(name string) string { return filepath.Join(m.dir, "ws", name) }

func (m *masked) write(name, content string) {
	m.t.Helper()
	hosttest.Must(m.t, os.WriteFile(m.at(name), []byte(content+"\n"), 0o644))
}

// save replaces a file by renaming, as an editor outside of the sandbox does.
func (m *masked) save(name, content string) {
	m.t.Helper()
	m.write(name+"~", content)
	hosttest.Must(m.t, os.Rename(m.at(name+"~"), m.at(name)))
}

func (m *masked) content(name string) string {
	b, _ := os.ReadFile(m.at(name))
	return strings.TrimSpace(string(b))
}

// start starts a host with the given "paths" block and the given settings of the sandbox.
func (m *masked) start(paths, sandbox string) {
	m.t.Helper()
	config := filepath.Join(m.dir, "config.hcl")
	text := "permissions {\n default = \"allow\"\n paths {\n" + paths + "\n}\n}\nsandbox {\n" + sandbox + "\n}\n" +
		"plugin \"bash\" {\n env = { E = \".env\", D = \"secrets\", P = \"deploy\", K = \"keep\" }\n}\nplugin \"read\" {}\nplugin \"grep\" {}\nplugin \"edit\" {}\n"
	hosttest.Must(m.t, os.WriteFile(config, []byte(text), 0o644))
	c := m.w.command(m.user, filepath.Join(hosttest.Bin, "toolhost"), "--on-ask", "allow", "--config", config, "--workspace", m.at(""), "--state", filepath.Join(m.dir, "state"), "--session", "s", "batch")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(m.dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(m.dir, "run")}
	c.Dir, c.Stderr = m.at(""), m.t.Output()
	in, err := c.StdinPipe()
	hosttest.Must(m.t, err)
	out, err := c.StdoutPipe()
	hosttest.Must(m.t, err)
	hosttest.Must(m.t, c.Start())
	m.in, m.out = in, bufio.NewScanner(out)
	m.out.Buffer(nil, 1<<20)
	m.ended = func() {
		_ = in.Close()
		_ = c.Wait()
	}
	m.t.Cleanup(m.ended)
}

// send sends a call without waiting for its result.
func (m *masked) send(command string) {
	m.t.Helper()
	hosttest.Must(m.t, json.NewEncoder(m.in).Encode(map[string]any{"id": 1, "command": command}))
}

// receive returns the next result.
func (m *masked) receive() string {
	m.t.Helper()
	if !m.out.Scan() {
		m.t.Fatalf("the host ended: %v", m.out.Err())
	}
	var r struct {
		Output string `json:"output"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	hosttest.Must(m.t, json.Unmarshal(m.out.Bytes(), &r))
	if r.Error != nil {
		r.Output += r.Error.Message
	}
	return strings.TrimSpace(r.Output)
}

func (m *masked) call(command string) string {
	m.t.Helper()
	m.send(command)
	return m.receive()
}

// denied runs a command that must not print the content of denied files.
func (m *masked) denied(when, command string) {
	m.t.Helper()
	if out := m.call(command); strings.Contains(out, secret) {
		m.t.Errorf("%s: %s printed denied content: %s", when, command, out)
	}
}

// maskReaders lists commands that print the content of denied files if the files are not hidden.
var maskReaders = []string{
	`cat "$E"`, `cat other`, `cat so*`, `echo "$(<"$E")"`, `cat sub/deep/"$E"`, `cat "$D"/key`, `command grep -r S3CRET .`, `find . -name "*n*" -type f -exec cat {} +`,
	`tar cf - . | tr -d '\0'`, `cp "$E" copied; cat copied`, `ln "$E" linked; cat linked`, `ln -s "$E" new; cat new`, `mv "$E" moved; cat moved; mv moved "$E"`,
	`mv sub sub2; cat sub2/deep/"$E"; mv sub2 sub`, `mv "$D" d2; cat d2/key; mv d2 "$D"`, `cat /proc/self/root$PWD/"$E"`, `exec 9< "$E"; cat <&9`, `dd if="$E" 2>&1`, `base64 "$E" | base64 -d`,
	`cat ./sub/../"$E"`, `chmod 644 "$E"; cat "$E"`, `(cd sub/deep && cat ../../"$E")`, `tool:read other`, `tool:grep S3CR.T --hidden --output-mode content`,
}

// eachMaskUser runs a test as an ordinary user. If the test process runs as root, it also runs the test as root.
func eachMaskUser(t *testing.T, test func(t *testing.T, user string)) {
	t.Helper()
	if !hosttest.Supports(t, "ns") {
		need.Missing(t, "this machine has no namespaces: toolhost doctor reports why")
	}
	if os.Getuid() == 0 {
		t.Run("root", func(t *testing.T) { test(t, "root") })
	}
	t.Run("ordinary", func(t *testing.T) { test(t, "ordinary") })
}

// TestDeniedPaths checks that no command prints or changes the content of denied files. Without the rule, each command
// must print the content, which shows that the commands fail because of the rule.
func TestDeniedPaths(t *testing.T) {
	t.Parallel()
	readers := slices.Clone(maskReaders)
	if isThere("/usr/bin/python3") {
		readers = append(readers, `/usr/bin/python3 -c 'import os; print(open(os.environ["E"]).read())'`)
	}
	eachMaskUser(t, func(t *testing.T, user string) {
		for _, deny := range []bool{true, false} {
			m := newMasked(t, user)
			m.start(map[bool]string{true: `deny = ["**/.env", "secrets/**"]`}[deny], `enforce = "require"`)
			for _, command := range readers {
				if out := m.call(command); strings.Contains(out, secret) == deny {
					t.Errorf("denied %v: %s: %s", deny, command, out)
				}
			}
			if !deny {
				continue
			}
			for _, command := range []string{`echo new > "$E"`, `echo new > other`, `rm -rf "$E" "$D" other`, `touch n; mv -f n "$E"`, `truncate -s 0 "$D"/key`, `rm -rf sub`, `tool:write other new`} {
				m.call(command)
			}
			for _, f := range []string{".env", "other", "sub/deep/.env", "secrets/key"} {
				if got := m.content(f); got != secret {
					t.Errorf("%s was changed: %q", f, got)
				}
			}
		}
	})
}

// TestDeniedPathsAfterChanges checks that denied files stay hidden from running plugins after programs outside of the
// sandbox replaced, moved or created them.
func TestDeniedPathsAfterChanges(t *testing.T) {
	t.Parallel()
	eachMaskUser(t, func(t *testing.T, user string) {
		m := newMasked(t, user)
		m.start(`deny = ["**/.env", "secrets/**"]`, `enforce = "require"`)
		if out := m.call(`cat "$E"`); !strings.Contains(out, "Permission denied") {
			t.Fatal(out)
		}
		hosttest.Must(t, os.Remove(m.at("other")))
		m.save(".env", secret)
		m.denied("saved by renaming", `cat "$E"`)
		m.save(".env", secret)
		m.denied("saved again, another tool", `tool:grep S3CR.T --hidden --output-mode content`)
		m.save("sub/deep/.env", secret)
		m.denied("saved below", `cat sub/deep/"$E"`)
		hosttest.Must(t, os.Link(m.at(".env"), m.at("again")))
		m.denied("linked", `cat again`)
		hosttest.Must(t, os.Rename(m.at("secrets"), m.at("secrets-old")))
		hosttest.Must(t, os.Mkdir(m.at("secrets"), 0o755))
		m.write("secrets/new", secret)
		m.denied("another directory", `cat "$D"/new`)
		hosttest.Must(t, os.Mkdir(m.at("made"), 0o755))
		m.write("made/.env", secret)
		m.denied("created", `cat made/"$E"`)
		hosttest.Must(t, os.Rename(m.at("sub"), m.at("sub3")))
		m.denied("moved", `cat sub3/deep/"$E"`)
		// A command creates a denied file. The next call must not be able to read the file.
		m.call(`mkdir own; echo S3''CRET > own/"$E"`)
		if m.content("own/.env") != secret {
			t.Error("the command could not create a file")
		}
		m.denied("created by a command", `cat own/"$E"`)
		// An editor saves the file while a command runs. The command ends when it can no longer read the file.
		m.send(`touch started; until [ -e saved ]; do sleep 0.01; done; for i in {1..1000}; do cat "$E" > /dev/null 2>&1 || break; sleep 0.01; done; cat "$E"`)
		for !isThere(m.at("started")) {
		}
		m.save(".env", secret)
		m.write("saved", "")
		if out := m.receive(); strings.Contains(out, secret) || !strings.Contains(out, "Permission denied") {
			t.Errorf("saved during a call: %s", out)
		}
	})
}

// maskWriters contains commands that change protected files if the files are not protected.
var maskWriters = map[string]string{
	`echo new > "$P"/x`: "deploy/x", `rm -rf "$P"`: "deploy/x", `mv "$P" p2; mkdir "$P"; echo new > "$P"/x`: "deploy/x", `echo new > other-x`: "deploy/x",
	`mv inner i2; mkdir -p inner/deep; echo new > inner/deep/"$K"`: "inner/deep/keep",
	`echo new > .vscode/tasks.json`:                                ".vscode/tasks.json", `rm -rf .vscode`: ".vscode/tasks.json", `rm -f mise.toml; echo new > mise.toml`: "mise.toml",
	`echo new > pkg/.claude/settings.json`: "pkg/.claude/settings.json", `touch n; mv -f n mise.toml`: "mise.toml", `truncate -s 0 mise.toml`: "mise.toml",
}

// TestProtectedPaths checks that no command changes protected files, and that plugins can still read these files.
// Without the protection, each command must change its file.
func TestProtectedPaths(t *testing.T) {
	t.Parallel()
	eachMaskUser(t, func(t *testing.T, user string) {
		for command, file := range maskWriters {
			m := newMasked(t, user)
			m.start(`writable = [".vscode", ".claude", "mise.toml"]`, `enforce = "require"`)
			m.call(command)
			m.ended()
			if m.content(file) == "old" {
				t.Errorf("%s changes nothing without protection", command)
			}
		}
		m := newMasked(t, user)
		m.start(`protect = ["deploy/**", "inner/deep/keep"]`, `enforce = "require"`)
		for command, file := range maskWriters {
			m.call(command)
			if m.content(file) != "old" {
				t.Errorf("%s changed %s", command, file)
			}
		}
		if out := m.call(`cat "$P"/x .vscode/tasks.json`); out != "old\nold" {
			t.Errorf("protected files cannot be read: %s", out)
		}
		if out := m.call(`rm -r node_modules && echo removed`); out != "removed" {
			t.Errorf("installed packages cannot be removed: %s", out)
		}
		// A program outside of the sandbox replaces a file. The new file must also be protected.
		m.save("mise.toml", "saved")
		m.save("deploy/x", "saved")
		m.call(`echo new > mise.toml; echo new > "$P"/x`)
		if m.content("mise.toml") != "saved" || m.content("deploy/x") != "saved" {
			t.Errorf("changed after it was saved: %q, %q", m.content("mise.toml"), m.content("deploy/x"))
		}
	})
}
