package shell

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/sdk/tool"
)

// plain returns a command for a new session.
func plain(t *testing.T, text string, out io.Writer) Command {
	t.Helper()
	bash, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Seed: Seed{Bash: bash, Dir: t.TempDir(), Env: Environment(os.Environ())}, Text: text, Stdout: out, Stderr: io.Discard, RestOut: io.Discard, RestErr: io.Discard}
}

func ended(p *Process) bool {
	select {
	case <-p.tree().Done():
		return true
	default:
		return false
	}
}

// TestUntoldEnd checks that if a command can leave processes behind, its result is returned only after the end of its
// shell.
func TestUntoldEnd(t *testing.T) {
	for text, left := range map[string]bool{"true & wait; echo x": false, "sleep 1000 & echo x": true, "echo x; cat <(sleep 0.1)": false, "sh -c 'sleep 1000 >&2 &'; echo x": true, "y=1; echo x": false} {
		var out bytes.Buffer
		r := NewRunner(0)
		p := r.Start("s", plain(t, text, &out))
		o, err := p.Outcome()
		if err != nil || o.Exit != 0 || out.String() != "x\n" || (len(o.Background) > 0) != left {
			t.Errorf("%s: %+v %v %q", text, o, err, out.String())
		}
		if !ended(p) {
			t.Errorf("%s: the shell has not ended", text)
		}
		r.Close()
	}
}

// TestKilledAwake kills a shell after the wake-up. The command must not be run again, because it may already have run.
func TestKilledAwake(t *testing.T) {
	for _, text := range []string{"echo x >>ran; sh -c 'kill -KILL $PPID; sleep 1'", "x=1; echo x >>ran; kill -KILL $$"} {
		r := NewRunner(MaxIdle)
		t.Cleanup(r.Close)
		c := plain(t, text, io.Discard)
		r.Prepare("s", c.Seed)
		r.Idle()
		o, err := r.Start("s", c).Outcome()
		if err != nil || o.Exit != 137 || o.Fresh || o.Signal != "SIGKILL" {
			t.Errorf("%s: %+v %v", text, o, err)
		}
		if ran, err := os.ReadFile(filepath.Join(c.Dir, "ran")); err != nil || string(ran) != "x\n" {
			t.Errorf("%s: %q %v", text, ran, err)
		}
	}
}

// TestFrozenNames makes all variables of a session read-only, including the shell's own variables. The session must
// still work.
func TestFrozenNames(t *testing.T) {
	var out bytes.Buffer
	r := NewRunner(0)
	defer r.Close()
	c := plain(t, "", &out)
	c.Tools = &tool.Commands{Address: "/nonexistent", Dir: c.Dir, Token: "one"}
	for i, text := range []string{
		"readonly TOOLHOST_CALL __toolhost_script BASH_EXECUTION_STRING x=1", "sh -c 'echo $TOOLHOST_CALL'; echo $x", "y=1; sh -c 'echo $TOOLHOST_CALL'",
		"for v in $(compgen -v); do readonly $v; done 2>/dev/null; true", "z=2; echo $x", "echo $x",
	} {
		c.Text = text
		o, err := r.Start("s", c).Outcome()
		if err != nil || o.Exit != 0 || o.Fresh || o.StateErr != nil {
			t.Fatalf("%s: %+v %v", text, o, err)
		}
		if o.Snapshot != nil {
			c.State = session.State{Snapshot: o.Snapshot, Base: c.Env}
		}
		c.Tools.Token = strconv.Itoa(i)
	}
	if out.String() != "0\n1\n1\n1\n1\n" {
		t.Errorf("%q", out.String())
	}
}

// TestRunOnce checks texts that the parser or bash rejects as commands. Each text must run exactly once, and only as
// far as bash itself would run it.
func TestRunOnce(t *testing.T) {
	for text, want := range map[string]string{
		"echo x >>ran\n(ls !(x))": "x\n", "echo x >>ran\n(echo @(a|b) >>ran)": "x\n", "echo x >>ran\n(shopt -s extglob\nls !(L))": "x\n", "echo x >>ran\n(time -p)": "x\n",
		"cat >>ran <<EOF\nx\nEOF\r\n": "x\nEOF\r\n", "cat >>ran <<EOF\r\nx\r\nEOF": "x\r\nEOF\n", "echo x >>ran; ls |": "", "echo x >>ran; \"": "", "echo x >>ran # \\": "x\n", "(echo x >>ran": "",
		"echo x >>ran; nosuchcommand": "x\n", "echo x >>ran; cat <nosuchfile": "x\n",
	} {
		bash, err := Find()
		if err != nil {
			t.Fatal(err)
		}
		plainly := t.TempDir()
		real := exec.Command(bash, "-c", text)
		real.Dir = plainly
		_ = real.Run() // ignore the error, because most of the texts fail
		r := NewRunner(0)
		c := plain(t, text, io.Discard)
		o, err := r.Start("s", c).Outcome()
		if err != nil || o.Exit != real.ProcessState.ExitCode() {
			t.Errorf("%q: %+v %v, bash: %v", text, o, err, real.ProcessState)
		}
		got, _ := os.ReadFile(filepath.Join(c.Dir, "ran"))
		if bashs, _ := os.ReadFile(filepath.Join(plainly, "ran")); string(got) != string(bashs) || want != "" && string(got) != want {
			t.Errorf("%q: %q, bash: %q, want %q", text, got, bashs, want)
		}
		r.Close()
	}
}

// TestStdinOfWarm checks that a prestarted shell gets the command's standard input.
func TestStdinOfWarm(t *testing.T) {
	for _, text := range []string{"cat", "[ -s /dev/stdin ] && echo given", "x=1; cat", "true & cat"} {
		r := NewRunner(MaxIdle)
		var out bytes.Buffer
		c := plain(t, text, &out)
		r.Prepare("s", c.Seed)
		r.Idle()
		given := "given\n"
		c.Stdin = &given
		if o, err := r.Start("s", c).Outcome(); err != nil || o.Exit != 0 || out.String() != given {
			t.Errorf("%s: %+v %v %q", text, o, err, out.String())
		}
		r.Close()
	}
}

// TestNoisyStatus checks a command that fills the status pipe. The result must not be delayed.
func TestNoisyStatus(t *testing.T) {
	var out bytes.Buffer
	r := NewRunner(0)
	defer r.Close()
	if o, err := r.Start("s", plain(t, "(head -c 200000 /dev/zero >&209); echo ok", &out)).Outcome(); err != nil || o.Exit != 0 || out.String() != "ok\n" {
		t.Errorf("%+v %v %q", o, err, out.String())
	}
}
