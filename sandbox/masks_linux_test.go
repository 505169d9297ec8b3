package sandbox

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/warden"
)

// TestMasks checks masks that exist when a program starts, and masks that are added while the program runs.
func TestMasks(t *testing.T) {
	launcher, _ := build(t)
	kernel := Probe(launcher, "")
	if err := (Namespaces{}).Unusable(&kernel); err != nil {
		need.Missing(t, err)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	must(t, compile(linked, "cmd/toolhost-sandbox", "-ldflags=-s -w -E main.entry"))
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"ws", "ws/d", "state", "masks"} {
		must(t, os.Mkdir(at(d), 0o755))
	}
	for _, f := range []string{"ws/a", "ws/b", "ws/d/c", "ws/p", "ws/late", "ws/late-p"} {
		must(t, os.WriteFile(at(f), []byte("content of "+f+"\n"), 0o644))
	}
	must(t, os.Symlink("b", at("ws/link")))
	must(t, MaskObjects(at("masks")))
	must(t, MaskObjects(at("masks"))) // a second call keeps the objects
	policy, env, err := profiles["shell"].Policy(Place{Binary: "/bin/sh", Roots: []tool.Root{{Path: at("ws"), Writable: true}}, StateDir: at("state"), Env: []string{"PATH=/usr/bin:/bin"}}, kernel.ABI)
	must(t, err)
	policy.MaskDir = at("masks")
	policy.Masks = []confine.Mask{{Path: at("ws/a"), Kind: confine.Hide}, {Path: at("ws/d"), Kind: confine.Hide}, {Path: at("ws/p"), Kind: confine.Protect}, {Path: at("ws/missing"), Kind: confine.Hide}, {Path: at("ws/link"), Kind: confine.Hide}}
	cmd := exec.Command("/bin/sh", "-c", `cd "$1"; cat a b d/c p; echo new >> p; rm -rf a d; echo ready; read line; cat late late-p; echo new >> late-p; cat b`, "sh", at("ws"))
	cmd.Env = env
	in, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	running, err := Namespaces{}.Wrap(cmd, launcher, policy)
	must(t, err)
	_, err = running(cmd.Start(), nil)
	must(t, err)
	out := bufio.NewReader(stdout)
	var first strings.Builder
	for line := ""; line != "ready\n"; {
		line, err = out.ReadString('\n')
		must(t, err)
		first.WriteString(line)
	}
	if got := first.String(); got != "content of ws/b\ncontent of ws/p\nready\n" {
		t.Errorf("at the start: %q", got)
	}
	inside, err := warden.Enter(cmd.Process.Pid)
	must(t, err)
	late := []confine.Mask{{Path: at("ws/late"), Kind: confine.Hide}, {Path: at("ws/late-p"), Kind: confine.Protect}, {Path: at("ws/link"), Kind: confine.Hide}}
	if err := inside.Mask(launcher, at("masks"), late); err == nil || !strings.Contains(err.Error(), "linked without its entry point") {
		t.Errorf("a launcher without entry point: %v", err)
	}
	must(t, inside.Mask(linked, at("masks"), late))
	if err := inside.Mask(linked, at("nowhere"), late[:1]); err != nil {
		t.Log(err)
	} else {
		t.Error("a mask without an object is no error")
	}
	object, mounted, err := inside.Stat(at("ws/late"))
	want, failed := warden.ObjectAt(at("masks/file"))
	if err != nil || failed != nil || !mounted || object != want {
		t.Errorf("%v %v %v %v", object, mounted, err, failed)
	}
	_, err = io.WriteString(in, "go\n")
	must(t, err)
	rest, err := io.ReadAll(out)
	must(t, err)
	// Wait until the process has ended. Nobody has waited for the process, so it remains as a zombie.
	for {
		again, err := warden.Enter(cmd.Process.Pid)
		if errors.Is(err, warden.ErrEnded) {
			break
		}
		must(t, err)
		must(t, again.Close())
	}
	if err := inside.Mask(linked, at("masks"), late); err != warden.ErrEnded { //nolint:errorlint // the error is returned unwrapped
		t.Errorf("before the wait: %v", err)
	}
	_ = cmd.Wait()
	if got := string(rest); got != "content of ws/late-p\ncontent of ws/b\n" {
		t.Errorf("later: %q", got)
	}
	if err := inside.Mask(linked, at("masks"), late); err != warden.ErrEnded { //nolint:errorlint // the error is returned unwrapped
		t.Errorf("after the end: %v", err)
	}
	must(t, inside.Close())
	for _, f := range []string{"ws/a", "ws/b", "ws/d/c", "ws/p", "ws/late", "ws/late-p"} {
		if b, err := os.ReadFile(at(f)); err != nil || string(b) != "content of "+f+"\n" {
			t.Errorf("%s: %q %v", f, b, err)
		}
	}
}
