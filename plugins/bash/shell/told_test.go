package shell

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/sdk/tool"
)

// plain gives a command for a new session.
func plain(t *testing.T, text string, out io.Writer) Command {
	t.Helper()
	bash, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Seed: Seed{Bash: bash, Dir: t.TempDir(), Env: Environment(os.Environ())}, Text: text, Stdout: out, Stderr: io.Discard, RestOut: io.Discard, RestErr: io.Discard}
}

// slowToEnd has the shell of a command not come to its end.
func slowToEnd(t *testing.T, c *Command) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte("trap 'read -t 1000 <>fifo' EXIT\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(c.Dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, "BASH_ENV="+path)
}

func ended(p *Process) bool {
	select {
	case <-p.tree().Done():
		return true
	default:
		return false
	}
}

// TestToldEnd: who waits for a command that leaves nothing does not wait for the shell's own end.
// What comes after that is ended.
func TestToldEnd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("that nothing is left is known on Linux only")
	}
	for text, exit := range map[string]int{"echo x": 0, "echo x; sh -c 'exit 7'": 7, "echo x; sh -c 'exit 143'": 143, "echo x | cat && false": 1, "(echo x; exit 255)": 255} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c := plain(t, text, &out)
			slowToEnd(t, &c)
			r := NewRunner(0)
			defer r.Close()
			p := r.Start("s", c)
			o, err := p.Outcome()
			if err != nil || o.Exit != exit || o.Ending != Exited || !o.Kept || o.StateErr != nil || out.String() != "x\n" || (o.Signal == "SIGTERM") != (exit == 143) {
				t.Errorf("%+v %v %q", o, err, out.String())
			}
			if ended(p) || len(p.Alive()) > 0 {
				t.Errorf("the shell has ended: %v; these run: %v", ended(p), p.Alive())
			}
			select {
			case <-p.tree().Done():
			case <-time.After(time.Minute):
				t.Error("the shell goes on")
			}
		})
	}
}

// TestUntoldEnd: of a command that may have left something the end is that of its shell.
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

// TestKilledAsleep: a shell that was killed before it was awake has not run the command, and another
// one does.
func TestKilledAsleep(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("that it was not awake is known on Linux only")
	}
	for _, text := range []string{"echo $$ | tee -a ran", "x=1; echo $$ | tee -a ran"} {
		r := NewRunner(MaxIdle)
		t.Cleanup(r.Close)
		var out bytes.Buffer
		c := plain(t, text, &out)
		r.Prepare("s", c.Seed)
		pid := r.Idle()[0]
		for !unread(r.order[0].in.dump.pipe) { // it has not restored the state
			time.Sleep(time.Millisecond)
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for state := ""; !strings.Contains(state, ") T "); { // it may be on its way to its next system call
			b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
			if state = string(b); err != nil {
				t.Fatal(err)
			}
		}
		p := r.Start("s", c)
		<-p.attached
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		o, err := p.Outcome()
		if err != nil || o.Exit != 0 || o.Fresh || o.Signal != "" {
			t.Errorf("%s: %+v %v", text, o, err)
		}
		ran, err := os.ReadFile(filepath.Join(c.Dir, "ran"))
		if strings.Count(string(ran), "\n") != 1 || err != nil || string(ran) == strconv.Itoa(pid)+"\n" || out.String() != string(ran) {
			t.Errorf("%s: it ran in %q, the shell %d was killed; printed: %q", text, ran, pid, out.String())
		}
		// One that is gone when it is to be woken.
		in, err := newInstance(r.keeper, &c.Seed, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(in.tree.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-in.tree.Done()
		if err := in.wake(&c); err != nil || !in.asleep {
			t.Errorf("it is asleep: %v, %v", in.asleep, err)
		}
		in.close()
	}
}

// TestKilledMeanwhile: a shell that is killed just when a command comes has run it, or another one does.
func TestKilledMeanwhile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("that it was not awake is known on Linux only")
	}
	r := NewRunner(MaxIdle)
	defer r.Close()
	c := plain(t, "echo x >>ran", io.Discard)
	for round := range 20 {
		r.Prepare("s", c.Seed)
		pid := r.Idle()[0]
		for !unread(r.order[0].in.dump.pipe) {
			time.Sleep(time.Millisecond)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		o, err := r.Start("s", c).Outcome()
		if err != nil || o.Exit != 0 {
			t.Fatalf("round %d: %+v %v", round, o, err)
		}
		if ran, err := os.ReadFile(filepath.Join(c.Dir, "ran")); err != nil || len(ran) != 2*(round+1) {
			t.Fatalf("round %d: it ran %d times: %v", round, len(ran)/2, err)
		}
	}
}

// TestKilledAwake: a shell that was awake may have run the command, which no other one then does.
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

// TestFrozenNames: a session that has made all of its variables read-only, those of a shell too, goes on.
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

// TestRunOnce: what the parser takes for a command and bash does not, or the other way round, runs as
// far as bash gets, once, and nothing gets into it.
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
		_ = real.Run() // it fails, mostly
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

// TestDescriptors: what a shell has for itself is not in the way of the user's, nor in a program's hands
// but for what each shell needs until its end.
func TestDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("they are listed on Linux only")
	}
	for text, want := range map[string]string{
		"(exec {fd}>/dev/null; echo $fd)": "10\n", "x=1; exec {fd}>/dev/null; echo $fd": "10\n",
		"ls /proc/self/fd | grep 20": "204\n205\n209\n", "x=1; ls /proc/self/fd | grep 20": "204\n205\n", "ls /proc/self/fd | grep 20 & wait": "204\n205\n",
	} {
		var out bytes.Buffer
		r := NewRunner(MaxIdle)
		c := plain(t, text, &out)
		r.Prepare("s", c.Seed)
		r.Idle()
		if o, err := r.Start("s", c).Outcome(); err != nil || o.Exit != 0 || out.String() != want {
			t.Errorf("%s: %+v %v %q, want %q", text, o, err, out.String(), want)
		}
		r.Close()
	}
}

// TestStdinOfWarm: a shell that was there before its command has the command's standard input.
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

// TestNoisyStatus: who fills the pipe of the status holds nobody up.
func TestNoisyStatus(t *testing.T) {
	var out bytes.Buffer
	r := NewRunner(0)
	defer r.Close()
	if o, err := r.Start("s", plain(t, "(head -c 200000 /dev/zero >&209); echo ok", &out)).Outcome(); err != nil || o.Exit != 0 || out.String() != "ok\n" {
		t.Errorf("%+v %v %q", o, err, out.String())
	}
}
