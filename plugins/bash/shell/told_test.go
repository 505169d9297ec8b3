package shell

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/plugins/bash/process"
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

// slowToEnd gives a program that is bash, but for its end, which does not come.
func slowToEnd(t *testing.T, bash string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bash")
	if err := os.WriteFile(path, []byte("#!"+bash+"\n"+bash+" \"$@\"\nread -t 1000 <>fifo\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
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
	for process.Orphans() { // of a test before, not yet waited for
		time.Sleep(time.Millisecond)
	}
	for text, exit := range map[string]int{"echo x": 0, "echo x; sh -c 'exit 7'": 7, "echo x; sh -c 'exit 143'": 143, "echo x | cat && false": 1, "(echo x; exit 255)": 255} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c := plain(t, text, &out)
			c.Bash = slowToEnd(t, c.Bash)
			if err := syscall.Mkfifo(filepath.Join(c.Dir, "fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := NewRunner(0)
			defer r.Close()
			p := r.Start("s", c)
			o, err := p.Outcome()
			if err != nil || o.Exit != exit || o.Ending != Exited || !o.Kept || o.StateErr != nil || out.String() != "x\n" || (o.Signal == "SIGTERM") != (exit == 143) {
				t.Errorf("%+v %v %q", o, err, out.String())
			}
			if ended(p) {
				t.Error("the shell has ended")
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

// TestTokenIsKept: a session that has made the variables of a call read-only goes on.
func TestTokenIsKept(t *testing.T) {
	var out bytes.Buffer
	r := NewRunner(0)
	defer r.Close()
	c := plain(t, "readonly TOOLHOST_CALL", &out)
	c.Tools = &tool.Commands{Address: "/nonexistent", Dir: c.Dir, Token: "one"}
	for i, text := range []string{"readonly TOOLHOST_CALL", "sh -c 'echo $TOOLHOST_CALL'", "x=1; sh -c 'echo $TOOLHOST_CALL'"} {
		c.Text = text
		o, err := r.Start("s", c).Outcome()
		if err != nil || o.Exit != 0 || o.Snapshot == nil {
			t.Fatalf("%s: %+v %v", text, o, err)
		}
		c.State = session.State{Snapshot: o.Snapshot, Base: c.Env}
		c.Tools.Token = strconv.Itoa(i)
	}
	if out.String() != "one\none\n" {
		t.Errorf("%q", out.String())
	}
}
