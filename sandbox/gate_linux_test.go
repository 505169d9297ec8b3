package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/execgate"
)

// gatedShell is a shell in a sandbox. A test judges the programs that the shell executes.
type gatedShell struct {
	t    *testing.T
	dir  string
	gate execgate.Gate
	cmd  *exec.Cmd
	out  strings.Builder
	// listener is the listener of the gate. A test can close it.
	listener *os.File
}

// startShell runs a script behind the gate of a backend. The argument "judge" decides on the programs that the script
// executes.
func startShell(t *testing.T, backend Backend, judge execgate.Judge, script string) *gatedShell {
	t.Helper()
	launcher, _ := build(t)
	kernel := Probe(launcher, "")
	if err := backend.Unusable(&kernel); err != nil {
		need.Missing(t, err)
	}
	if err := kernel.Gate(backend); err != nil {
		need.Missing(t, err)
	}
	s := &gatedShell{t: t, dir: t.TempDir(), cmd: exec.Command("/bin/bash", "-c", script)}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = "/", &s.out, &s.out
	s.cmd.Env = []string{"PATH=/usr/bin:/bin", "DIR=" + s.dir}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	policy := confine.Policy{
		Run: append([]string{"/bin/bash"}, system...), Read: append([]string{"/proc"}, systemFiles...), Write: []string{s.dir}, Devices: devices,
		Scratch: []string{"/tmp", "/dev/shm"}, StartProcesses: true, ABI: kernel.ABI, Gate: true,
	}
	running, err := backend.Wrap(s.cmd, launcher, policy)
	if err != nil {
		t.Fatal(err)
	}
	_, err = running(s.cmd.Start(), func(listener *os.File) {
		s.listener = listener
		s.gate.Serve(listener, execgate.Options{Plugin: "test", Key: "key", Own: "none", PID: s.cmd.Process.Pid, Judge: judge})
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *gatedShell) wait() string {
	_ = s.cmd.Wait()
	return s.out.String()
}

// judge implements execgate.Judge with two functions. A nil function allows every program.
type judge struct {
	decide func(*execgate.Execution) execgate.Verdict
	answer func(context.Context, *execgate.Execution) execgate.Verdict
}

func (j judge) Judge(e *execgate.Execution) execgate.Verdict { return j.decide(e) }

func (j judge) Ask(ctx context.Context, e *execgate.Execution, _ execgate.Verdict) execgate.Verdict {
	return j.answer(ctx, e)
}

// both runs a test with both backends.
func both(t *testing.T, test func(t *testing.T, backend Backend)) {
	for _, b := range []Backend{Namespaces{}, Landlock{}} {
		t.Run(b.Name(), func(t *testing.T) { test(t, b) })
	}
}

// TestGateSees checks the data that the gate reads: the file, arguments of any length, the directory and the
// interpreters. It also checks paths that only the process can resolve.
func TestGateSees(t *testing.T) {
	both(t, func(t *testing.T, b Backend) {
		var mu sync.Mutex
		var seen []string
		j := judge{decide: func(e *execgate.Execution) execgate.Verdict {
			mu.Lock()
			defer mu.Unlock()
			line := fmt.Sprintf("%s %d %q", filepath.Base(e.Path), len(strings.Join(e.Argv, "")), e.Dir)
			if len(e.Argv) < 4 && len(e.Argv[len(e.Argv)-1]) < 100 {
				line = fmt.Sprintf("%s %q", filepath.Base(e.Path), e.Argv)
			}
			if e.Interpreter != nil {
				line += fmt.Sprintf(" by %s %q", filepath.Base(e.Interpreter.Path), e.Interpreter.Argv)
			}
			seen = append(seen, line)
			return execgate.Verdict{Effect: execgate.Allow}
		}}
		s := startShell(t, b, j, `
cd $DIR; mkdir sub; cd sub
long=$(printf '%9000s' x); /bin/echo "$long" $(seq 2000) >/dev/null
printf '#!/bin/sh -e\nexit 0\n' > script; chmod 755 script; ./script a 'b c'
cp /bin/true prog; ln -s prog link; ./link 1; exec 9<prog; /proc/self/fd/9 2; /dev/fd/9 3
ln -s /proc/self/fd/9 via; ./via 4; /proc/thread-self/fd/9 5; ../sub/../sub/prog 6; "$DIR/sub/prog" ''
/nosuch/program; ./nosuch; ./sub; : > plain; ./plain
(exec -a other ./prog 7)
`)
		out := s.wait()
		want := []string{
			`mkdir ["mkdir" "sub"]`, `seq ["seq" "2000"]`, fmt.Sprintf("echo %d %q", len("/bin/echo")+9000+1*9+2*90+3*900+4*1001, s.dir+"/sub"),
			`chmod ["chmod" "755" "script"]`,
			`script ["./script" "a" "b c"] by sh ["/bin/sh" "-e" "./script" "a" "b c"]`, `cp ["cp" "/bin/true" "prog"]`, `ln 12 "` + s.dir + `/sub"`,
			`prog ["./link" "1"]`, `prog ["/proc/self/fd/9" "2"]`, `prog ["/dev/fd/9" "3"]`, `ln 22 "` + s.dir + `/sub"`, `prog ["./via" "4"]`,
			`prog ["/proc/thread-self/fd/9" "5"]`, `prog ["../sub/../sub/prog" "6"]`, fmt.Sprintf("prog [%q \"\"]", s.dir+"/sub/prog"), `prog ["other" "7"]`,
		}
		mu.Lock()
		defer mu.Unlock()
		// The files of dash and coreutils can have other names.
		got := strings.NewReplacer("by dash ", "by sh ", "by bash ", "by sh ").Replace(strings.Join(seen, "\n"))
		if got != strings.Join(want, "\n") {
			t.Errorf("the gate saw\n%s\nwant\n%s\noutput: %s", got, strings.Join(want, "\n"), out)
		}
	})
}

// TestGateDenies checks that a denied program is not executed, even if another path or a descriptor names the program.
func TestGateDenies(t *testing.T) {
	both(t, func(t *testing.T, b Backend) {
		j := judge{decide: func(e *execgate.Execution) execgate.Verdict {
			if filepath.Base(e.Path) == "touch" {
				return execgate.Verdict{Effect: execgate.Deny, Rule: "r", Reason: "no"}
			}
			return execgate.Verdict{Effect: execgate.Allow}
		}}
		s := startShell(t, b, j, `cd $DIR; touch a; echo $?; ln -s /usr/bin/touch t; ./t b; exec 9</usr/bin/touch; /dev/fd/9 c; env touch d; (exec touch e); echo f | xargs touch; ls`)
		if out := s.wait(); !strings.HasPrefix(out, "/bin/bash: line 1: /usr/bin/touch: Permission denied\n126\n") || !strings.HasSuffix(out, "\nt\n") {
			t.Errorf("output: %s", out)
		}
	})
}

// TestGateAsks checks that a permission request blocks one execution while other executions continue. The request must
// end with the call and with the process.
func TestGateAsks(t *testing.T) {
	both(t, func(t *testing.T, b Backend) {
		asked := make(chan context.Context, 4)
		answer := make(chan string)
		j := judge{
			decide: func(e *execgate.Execution) execgate.Verdict {
				if filepath.Base(e.Path) == "touch" {
					return execgate.Verdict{Effect: execgate.Ask}
				}
				return execgate.Verdict{Effect: execgate.Allow}
			},
			answer: func(ctx context.Context, _ *execgate.Execution) execgate.Verdict {
				asked <- ctx
				select {
				case effect := <-answer:
					return execgate.Verdict{Effect: effect}
				case <-ctx.Done():
					return execgate.Verdict{Effect: execgate.Deny}
				}
			},
		}
		s := startShell(t, b, j, `cd $DIR; meet() { while [ ! -e $1 ]; do :; done; }; meet go
touch first & pid=$!; meet two; /bin/true; : > went-on; wait $pid; echo first $?
touch second & pid=$!; meet kill; kill -9 $pid; wait $pid; echo second $?
touch third & pid=$!; meet stop; kill -STOP $pid; : > stopped; wait $pid; echo third $?; touch fourth; echo fourth $?; echo *
: > done; meet again; touch fifth & pid=$!; meet forever; kill -STOP $pid; : > stopped-forever`)
		call := s.gate.Begin(t.Context(), "key", "", nil)
		file := func(name string) {
			if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
		await := func(name string) {
			for _, err := os.Stat(filepath.Join(s.dir, name)); err != nil; _, err = os.Stat(filepath.Join(s.dir, name)) {
				time.Sleep(time.Millisecond)
			}
		}
		file("go")
		<-asked
		file("two")
		await("went-on") // the second program must continue while the first program waits
		answer <- execgate.Allow
		second := <-asked
		file("kill")
		<-second.Done()
		third := <-asked
		file("stop")
		await("stopped")
		record, _ := call.End()
		<-third.Done()
		if record.Count < 2 || record.First[0].Path != "/usr/bin/true" {
			t.Errorf("the record is %+v", record)
		}
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGCONT)
		await("done")
		again := s.gate.Begin(t.Context(), "key", "", nil)
		file("again")
		fifth := <-asked
		file("forever")
		await("stopped-forever")
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // the host ends the processes in the same way
		<-fifth.Done()
		again.End()
		out := s.wait()
		for _, err := s.listener.Stat(); !errors.Is(err, os.ErrClosed); _, err = s.listener.Stat() {
			time.Sleep(time.Millisecond)
		}
		for _, want := range []string{"first 0\n", "second 137\n", "third 126\n", "fourth 126\n", "\nfirst go "} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s", want, out)
			}
		}
		for _, name := range []string{"second", "third", "fourth"} {
			if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
				t.Errorf("the program that makes %s was executed", name)
			}
		}
	})
}

// TestGateGone checks that no program is executed after the host stops judging.
func TestGateGone(t *testing.T) {
	both(t, func(t *testing.T, b Backend) {
		var s *gatedShell
		started := make(chan struct{})
		j := judge{decide: func(e *execgate.Execution) execgate.Verdict {
			// Replace the listener by another file, so that the host no longer judges.
			if filepath.Base(e.Path) == "seq" {
				<-started
				null, err := os.Open(os.DevNull)
				if err == nil {
					err = unix.Dup3(int(null.Fd()), int(s.listener.Fd()), unix.O_CLOEXEC)
				}
				if err != nil {
					t.Error(err)
				}
			}
			return execgate.Verdict{Effect: execgate.Allow}
		}}
		s = startShell(t, b, j, `cd $DIR; /bin/echo one; seq 1; /bin/echo two; touch three; echo end`)
		close(started)
		out := s.wait()
		if !strings.HasPrefix(out, "one\n") || strings.Contains(out, "two\n") || !strings.HasSuffix(out, "end\n") {
			t.Errorf("output: %s", out)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "three")); err == nil {
			t.Error("a program was executed without a judgement")
		}
	})
}

// TestGatePanics checks that a panic of the judge refuses only the program that was judged, with a message.
func TestGatePanics(t *testing.T) {
	j := judge{
		decide: func(e *execgate.Execution) execgate.Verdict {
			switch filepath.Base(e.Path) {
			case "seq":
				panic("a mistake in the judge")
			case "touch":
				return execgate.Verdict{Effect: execgate.Ask}
			}
			return execgate.Verdict{Effect: execgate.Allow}
		},
		answer: func(context.Context, *execgate.Execution) execgate.Verdict { panic("a mistake in the question") },
	}
	s := startShell(t, Namespaces{}, j, `cd $DIR; while [ ! -e go ]; do :; done; seq 1; /bin/echo two; touch three; /bin/echo four; echo *`)
	call := s.gate.Begin(t.Context(), "key", "", nil)
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.wait()
	if strings.Contains(out, "\n1\n") || !strings.Contains(out, "two\n") || !strings.HasSuffix(out, "four\ngo\n") {
		t.Errorf("output: %s", out)
	}
	record, messages := call.End()
	if record == nil || record.Count != 4 || record.Denied != 2 || len(messages) != 2 || !strings.Contains(messages[0], "seq was not executed, because the host failed to judge it (internal error: a mistake in the judge)") {
		t.Errorf("%+v %q", record, messages)
	}
}

// TestGateSlow checks that a slow judgement does not delay other programs.
func TestGateSlow(t *testing.T) {
	quick := make(chan struct{})
	j := judge{decide: func(e *execgate.Execution) execgate.Verdict {
		switch filepath.Base(e.Path) {
		case "seq":
			select {
			case <-quick:
			case <-time.After(20 * time.Second):
				t.Error("other programs wait for a slow judgement")
			}
		case "touch":
			close(quick)
		}
		return execgate.Verdict{Effect: execgate.Allow}
	}}
	s := startShell(t, Namespaces{}, j, `cd $DIR; seq 1 & seq 1 & seq 1 & /bin/true; touch x; wait; /bin/true; /bin/echo end`)
	if out := s.wait(); out != "1\n1\n1\nend\n" {
		t.Errorf("output: %s", out)
	}
}

// TestGateFull checks that programs are denied if too many programs already wait for an answer.
func TestGateFull(t *testing.T) {
	var judged atomic.Int32
	full := make(chan struct{})
	j := judge{
		decide: func(e *execgate.Execution) execgate.Verdict {
			if filepath.Base(e.Path) != "touch" {
				return execgate.Verdict{Effect: execgate.Allow}
			}
			if judged.Add(1) == 35 {
				defer time.AfterFunc(100*time.Millisecond, func() { close(full) }) // wait until the last program was refused
			}
			return execgate.Verdict{Effect: execgate.Ask}
		},
		answer: func(context.Context, *execgate.Execution) execgate.Verdict {
			<-full
			return execgate.Verdict{Effect: execgate.Allow}
		},
	}
	s := startShell(t, Namespaces{}, j, `cd $DIR; while [ ! -e go ]; do :; done; for i in {1..35}; do touch f$i & done; wait; rm go; echo * | wc -w`)
	call := s.gate.Begin(t.Context(), "key", "", nil)
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.wait()
	record, messages := call.End()
	if !strings.HasSuffix(out, "\n32\n") || record == nil || record.Denied != 3 || len(messages) != 1 || !strings.Contains(messages[0], "32 programs already wait for an answer") {
		t.Errorf("output: %s\n%d denied, %q", out, record.Denied, messages)
	}
}

// TestGateAttributes checks to which call the gate attributes a program that a thread executes. It must be the call
// that started the process.
func TestGateAttributes(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		need.Missing(t, "this test needs /usr/bin/python3")
	}
	allow := judge{decide: func(*execgate.Execution) execgate.Verdict { return execgate.Verdict{Effect: execgate.Allow} }}
	s := startShell(t, Namespaces{}, allow, `cd $DIR; while [ ! -e go ]; do :; done
TOOLHOST_CALL=t /usr/bin/python3 -c "import os, threading; t=threading.Thread(target=os.execve, args=('/bin/true', ['true'], {})); t.start(); t.join()"; :`)
	call := s.gate.Begin(t.Context(), "key", "t", nil)
	s.gate.Begin(t.Context(), "key", "u", nil) // if only one call ran, a process without a token would belong to this call
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.wait()
	record, _ := call.End()
	if record == nil || record.Count != 2 || filepath.Base(record.First[1].Path) != "true" {
		t.Errorf("the programs of the call are %+v, without true; output: %s", record, out)
	}
}

// TestGateBusy checks the gate with many concurrent processes. Each program must be judged exactly once.
func TestGateBusy(t *testing.T) {
	both(t, func(t *testing.T, b Backend) {
		var mu sync.Mutex
		count, want, more := 0, 1050, ""
		if b == (Namespaces{}) { // test much load with one backend, because the gate is the same in both
			want, more = 10_000, "seq 8950 | xargs -n 1 -P 16 /bin/true || echo bad; "
		}
		j := judge{decide: func(e *execgate.Execution) execgate.Verdict {
			mu.Lock()
			defer mu.Unlock()
			if filepath.Base(e.Path) == "true" {
				count++
			}
			return execgate.Verdict{Effect: execgate.Allow}
		}}
		s := startShell(t, b, j, `trap : CONT; for w in {1..20}; do (trap : CONT; for i in {1..50}; do /bin/true || echo bad; done) & done
for i in {1..50}; do kill -CONT -- -$$ 2>/dev/null; /bin/true; done; wait; wait; wait; `+more+`echo end`)
		if out := s.wait(); !strings.HasSuffix(out, "end\n") || strings.Contains(out, "bad") {
			t.Errorf("output: %s", out)
		}
		mu.Lock()
		defer mu.Unlock()
		if count != want {
			t.Errorf("%d executions were judged, want %d", count, want)
		}
	})
}

// TestGateRefuses checks that a file that cannot be read without waiting is not executed. It also checks that the first
// process cannot execute a denied program.
func TestGateRefuses(t *testing.T) {
	both(t, func(t *testing.T, b Backend) {
		deny := judge{decide: func(e *execgate.Execution) execgate.Verdict {
			if filepath.Base(e.Path) == "touch" {
				return execgate.Verdict{Effect: execgate.Deny, Reason: "no"}
			}
			return execgate.Verdict{Effect: execgate.Allow}
		}}
		s := startShell(t, b, deny, `cd $DIR; cp /bin/true leased; : > ready; while [ ! -e go ]; do :; done; env ./leased; echo leased $?; exec touch first`)
		leased := filepath.Join(s.dir, "leased")
		for _, err := os.Stat(filepath.Join(s.dir, "ready")); err != nil; _, err = os.Stat(filepath.Join(s.dir, "ready")) {
			time.Sleep(time.Millisecond)
		}
		f, err := os.OpenFile(leased, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if out := s.wait(); !strings.Contains(out, "Resource temporarily unavailable") || strings.Contains(out, "leased 0") {
			t.Errorf("output: %s", out)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "first")); err == nil {
			t.Error("the first process executed a program that is denied")
		}
	})
}

// TestGateOutlives checks a process that outlives its call. The rules of the call must still apply to the process, and
// an ask rule must lead to a denial.
func TestGateOutlives(t *testing.T) {
	j := judge{
		decide: func(e *execgate.Execution) execgate.Verdict {
			switch filepath.Base(e.Path) {
			case "touch":
				return execgate.Verdict{Effect: execgate.Deny}
			case "mkdir":
				return execgate.Verdict{Effect: execgate.Ask}
			}
			return execgate.Verdict{Effect: execgate.Allow}
		},
		answer: func(context.Context, *execgate.Execution) execgate.Verdict {
			return execgate.Verdict{Effect: execgate.Allow}
		},
	}
	s := startShell(t, Namespaces{}, nil, `cd $DIR; /bin/true; while [ ! -e go ]; do :; done; touch denied; mkdir asked; /bin/echo *`)
	call := s.gate.Begin(t.Context(), "key", "", j)
	call.End()
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := s.wait(); !strings.HasSuffix(out, "\ngo\n") {
		t.Errorf("output: %s", out)
	}
}
