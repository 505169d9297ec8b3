package shell

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs the tests. If TestUnknownChild runs this program as a command, TestMain instead starts a process whose
// parent is the shell.
func TestMain(m *testing.M) {
	if os.Getenv("SHELL_TEST_SIBLING") != "" {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_PARENT}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestUnknownChild checks that the plugin finds a process whose parent is the shell, although another program started
// it.
func TestUnknownChild(t *testing.T) {
	var out bytes.Buffer
	r := NewRunner(0)
	defer r.Close()
	c := plain(t, os.Args[0], &out)
	c.Env = append(c.Env, "SHELL_TEST_SIBLING=1")
	if o, err := r.Start("s", c).Outcome(); err != nil || o.Exit != 0 || len(o.Background) != 1 {
		t.Errorf("%+v %v %q", o, err, out.String())
	}
}

// slowToEnd delays the end of the command's shell.
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

// TestToldEnd checks a command that leaves no processes. Its result must not wait for the end of the shell.
// Processes that appear after the result must be killed.
func TestToldEnd(t *testing.T) {
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
			for _, ours := range []*os.File{p.shell.stdout, p.shell.stderr} { // wait until the plugin has closed its end of each pipe
				for err := error(nil); err == nil && !ended(p); _, err = ours.Stat() {
					time.Sleep(time.Millisecond)
				}
			}
			if ended(p) {
				t.Error("the output was read until the shell's end")
			}
			select {
			case <-p.tree().Done():
			case <-time.After(time.Minute):
				t.Error("the shell goes on")
			}
		})
	}
}

// TestKilledAsleep checks a shell that is killed before it is woken. The command must run in another shell.
func TestKilledAsleep(t *testing.T) {
	for _, text := range []string{"echo $$ | tee -a ran", "x=1; echo $$ | tee -a ran"} {
		r := NewRunner(MaxIdle)
		t.Cleanup(r.Close)
		var out bytes.Buffer
		c := plain(t, text, &out)
		r.Prepare("s", c.Seed)
		pid := r.Idle()[0]
		for !unread(r.order[0].in.dump.pipe) { // wait until the shell has restored the state
			time.Sleep(time.Millisecond)
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for state := ""; !strings.Contains(state, ") T "); { // wait until the shell is stopped
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
		// This shell is killed before it is woken.
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

// TestKilledMeanwhile kills a shell while a command arrives. The command must run in exactly one shell.
func TestKilledMeanwhile(t *testing.T) {
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

// TestDescriptors checks that the shell's private descriptors do not conflict with the user's descriptors. Programs
// must inherit only the private descriptors that each shell needs until its end.
func TestDescriptors(t *testing.T) {
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
