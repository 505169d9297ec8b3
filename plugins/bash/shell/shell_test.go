package shell

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/sdk/tool"
)

func TestEnvironment(t *testing.T) {
	got := Environment([]string{
		"PATH=/bin", "HOME=/root", "LANG=C", "TERM=xterm", "PAGER=less", "EMPTY=", "GIT_SSH_COMMAND=ssh -i key",
		"TOOLHOST_PLUGIN=cookie", "TOOLHOST_LIFELINE_FD=3", "TOOLHOST_TREE=1", "TOOLHOST_CALL=1", "PLUGIN_CLIENT_CERT=x", "PLUGIN_PROTOCOL_VERSIONS=2",
		"BASH_ENV=/evil", "SHELLOPTS=xtrace", "BASH_FUNC_ls%%=() { evil; }", "PWD=/x", "_=/bin/x", "not an assignment", "POSIXLY_CORRECT=1",
	})
	for _, want := range []string{"PATH=/bin", "HOME=/root", "LANG=C", "EMPTY=", "TERM=dumb", "PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_SSH_COMMAND=ssh -i key -oBatchMode=yes", "CI=1"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	seen := map[string]bool{}
	for _, e := range got {
		name, _, _ := strings.Cut(e, "=")
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
	}
	for _, name := range []string{"TOOLHOST_PLUGIN", "TOOLHOST_LIFELINE_FD", "TOOLHOST_TREE", "TOOLHOST_CALL", "PLUGIN_CLIENT_CERT", "PLUGIN_PROTOCOL_VERSIONS", "BASH_ENV", "SHELLOPTS", "BASH_FUNC_ls%%", "PWD", "_", "POSIXLY_CORRECT"} {
		if seen[name] {
			t.Errorf("%s is passed on", name)
		}
	}
}

func TestUsers(t *testing.T) {
	t.Setenv("SHELL", "/bin/some-shell")
	if got := Users(); got != "/bin/some-shell" {
		t.Error(got)
	}
	t.Setenv("SHELL", "")
	entry, err := exec.Command("sh", "-c", "grep \"^[^:]*:[^:]*:$(id -u):\" /etc/passwd | head -1 | cut -d: -f7").Output()
	if got := Users(); err != nil || got != strings.TrimSpace(string(entry)) || got == "" {
		t.Errorf("%q, want %q", got, entry)
	}
}

// TestBootIsOneLine checks that the boot script has only one line. Otherwise the command would not begin on line 1.
func TestBootIsOneLine(t *testing.T) {
	if strings.Contains(boot, "\n") || strings.Contains(exitTrap, "'") || strings.Contains(boot, "%!") {
		t.Error("boot has lines, or the trap a quote: ", boot)
	}
	if len(boot) > 1000 { // limit the length, because ps and pgrep -f show the script
		t.Errorf("boot has %d bytes", len(boot))
	}
	c := Command{Seed: Seed{Tools: &tool.Commands{Token: "x"}, State: session.State{Snapshot: &session.Snapshot{Options: "allexport:braceexpand"}}}}
	for _, c.kind = range []session.Kind{session.Stateless, session.NoBackground, session.BuiltinOnly} {
		if first, _, _ := strings.Cut(begin(&c, true), "\x00"); !strings.HasPrefix(first, `\builtin export -n BASH_EXECUTION_STRING; `) {
			t.Errorf("%q", first)
		}
	}
}

func TestNamelessFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, open := range []func(string) (*os.File, error){nameless, namelessOnDisk} {
		f, err := open("text")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(f); string(b) != "text" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if entries, _ := os.ReadDir(os.TempDir()); len(entries) > 0 {
			t.Errorf("%v is left", entries)
		}
		_ = f.Close()
	}
	t.Setenv("TMPDIR", "/nonexistent")
	if _, err := namelessOnDisk("text"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestPumpReadsAllThatWasWritten(t *testing.T) {
	for _, tc := range []struct{ late, complete bool }{{}, {late: true}, {late: true, complete: true}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		widen(r, outputSize)
		var got bytes.Buffer
		want := bytes.Repeat([]byte("0123456789abcdef"), 4000)
		if _, err := w.Write(want); err != nil {
			t.Fatal(err)
		}
		p := &pump{r: r, w: &got, rest: io.Discard, done: make(chan struct{})}
		late := tc.late && !tc.complete
		switch {
		case late:
			p.late = quietTime
		case tc.late:
			p.late = time.Hour // the test does not wait for this time
		}
		p.shellEnded(tc.complete) // call shellEnded before the pump reads anything
		go p.run()
		<-p.done
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d bytes of %d", got.Len(), len(want))
		}
		// A process that still writes must not block and must not be killed.
		if _, err = w.Write(bytes.Repeat(want, 20)); late && err != nil {
			t.Error(err)
		}
		if !late && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("the pipe is open still: %v", err)
		}
		if got.Len() != len(want) {
			t.Error("something was taken after the end")
		}
		_ = w.Close()
	}
}

// TestDump checks that a dump larger than the limit is read to its end. Otherwise the shell would block.
func TestDump(t *testing.T) {
	for _, size := range []int{0, 1, maxDump - 1, maxDump, maxDump + 1, 3 * maxDump} {
		r, w, err := plainPipe()
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDump(r)
		if err != nil {
			t.Fatal(err)
		}
		d.read() // this call must not block
		for left := size; left > 0; left -= 4096 {
			_, _ = w.Write(bytes.Repeat([]byte("x"), min(4096, left)))
			d.read()
		}
		_ = w.Close()
		d.read()
		if len(d.kept) != min(size, maxDump) {
			t.Errorf("of %d bytes %d were kept", size, len(d.kept))
		}
		_ = r.Close()
	}
}

// TestPrivateDescriptors checks that the numbers of private descriptors are higher than the numbers that commands
// use.
func TestPrivateDescriptors(t *testing.T) {
	for _, fd := range []int{commandsFD, session.ScriptFD, session.DumpFD, session.StatusFD, wakeFD, beginFD, stdinFD} {
		if fd < 200 {
			t.Errorf("descriptor %d", fd)
		}
	}
}
