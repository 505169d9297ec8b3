package bash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/plugins/bash/jobs"
	"toolhost.dev/sdk/tool"
)

// told is the decoded result of the tool job.
type told struct {
	*tool.Result
	jobData
}

func (s *sess) job(in jobArgs) *told {
	s.t.Helper()
	if in.Lines == 0 {
		in.Lines = 50
	}
	if in.Timeout == 0 {
		in.Timeout = 30_000
	}
	raw, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	res := s.h.plugin.Call(s.t.Context(), &tool.Call{ID: "1", Tool: "job", Arguments: raw, SessionID: s.id, Cwd: s.cwd, Roots: s.roots}, &peer{})
	a := &told{Result: res}
	if len(res.Data) > 0 {
		if err := json.Unmarshal(res.Data, &a.jobData); err != nil {
			s.t.Fatal(err)
		}
	}
	return a
}

func (s *sess) background(command string) string {
	s.t.Helper()
	a := s.call(s.t.Context(), args{Command: command, Background: true})
	if a.Error != nil || a.JobID == "" || a.ExitCode != -1 {
		s.t.Fatalf("%s: %s %+v", command, a.text(), a.data)
	}
	return a.JobID
}

// TestHealthNamesWhatIsKept checks that the plugin reports jobs and secrets, which would be lost with its process.
func TestHealthNamesWhatIsKept(t *testing.T) {
	h := newHost(t)
	keeps := func() string {
		got, err := h.plugin.Health(t.Context(), "")
		if err != nil || got.Status != tool.Healthy {
			t.Fatalf("%+v, %v", got, err)
		}
		return string(got.Details)
	}
	s := h.session()
	if s.ok("x=1; export PATH_TO=2"); keeps() != "" {
		t.Errorf("a session without jobs and secrets keeps %s", keeps())
	}
	if s.ok("export API_TOKEN=abcdef"); keeps() != `{"keeps":"variables with secrets of 1 sessions"}` {
		t.Errorf("with a secret: %s", keeps())
	}
	if s.ok("unset API_TOKEN"); keeps() != "" {
		t.Errorf("without the secret: %s", keeps())
	}
	id := s.background("sleep 100")
	if got := keeps(); got != `{"keeps":"1 jobs"}` {
		t.Errorf("with a job: %s", got)
	}
	s.job(jobArgs{Action: "kill", ID: id})
	if got := keeps(); got != `{"keeps":"1 jobs"}` {
		t.Errorf("the output of an ended job can be read: %s", got)
	}
}

func TestBackground(t *testing.T) {
	eachWay(t, func(t *testing.T, h *host) {
		s := h.session()
		s.ok("x=before; mkdir d")
		id := s.background("x=after; cd d; echo started; echo err >&2; sleep 0.3; echo done; exit 7")
		if err := os.WriteFile(filepath.Join(s.cwd, "other"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := s.ok("echo $x; pwd"); got != "before\n"+s.cwd+"\n" {
			t.Errorf("the job changed the session: %q", got)
		}
		s.job(jobArgs{Action: "wait", ID: id})
		got := s.job(jobArgs{Action: "tail", ID: id})
		j := got.Jobs[0]
		if j.Running || j.ExitCode == nil || *j.ExitCode != 7 || got.Stdout != "started\ndone\n" || !strings.Contains(got.Output, "exit status 7") {
			t.Errorf("%s %+v", got.Output, got.jobData)
		}
	})
}

func TestYield(t *testing.T) {
	h := newHost(t)
	for name, in := range map[string]args{
		"slow":   {Command: "echo early; sleep 1000", Yield: 300},
		"silent": {Command: "for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 1000", YieldIdle: 600},
	} {
		t.Run(name, func(t *testing.T) {
			s := h.session()
			s.t = t
			a := s.call(t.Context(), in)
			if a.Error != nil || a.JobID == "" || a.ExitCode != -1 || a.Stdout == "" || !strings.Contains(a.Output, "job kill "+a.JobID) {
				t.Fatalf("%s %+v", a.text(), a.data)
			}
			if got := s.ok("echo at once"); got != "at once\n" {
				t.Error(got)
			}
			list := s.job(jobArgs{Action: "list"})
			if len(list.Jobs) != 1 || !list.Jobs[0].Running || len(list.Jobs[0].PIDs) == 0 || !strings.Contains(list.Output, a.JobID) {
				t.Errorf("%s", list.Output)
			}
			killed := s.job(jobArgs{Action: "kill", ID: a.JobID})
			noneNow(h)
			if j := killed.Jobs[0]; j.Running || j.Signal == "" {
				t.Errorf("%s", killed.Output)
			}
			if again := s.job(jobArgs{Action: "kill", ID: a.JobID}); again.Error == nil || !strings.Contains(again.Error.Message, "has ended already") {
				t.Errorf("%+v", again.Result)
			}
		})
	}
	// A command that ends before its time limit does not become a job.
	if a := h.session().call(t.Context(), args{Command: "echo x", Yield: 60_000, YieldIdle: 60_000}); a.JobID != "" || a.Stdout != "x\n" {
		t.Errorf("%s %+v", a.text(), a.data)
	}
}

func TestWhatIsLeftIsAJob(t *testing.T) {
	h := newHost(t)
	s := h.session()
	a := s.run("{ sleep 0.4; echo late; sleep 1000; } & echo now")
	if a.Stdout != "now\n" || a.JobID == "" || a.ExitCode != 0 || !strings.Contains(a.Output, "left processes running as the job "+a.JobID) {
		t.Fatalf("%s %+v", a.text(), a.data)
	}
	for end := time.Now().Add(10 * time.Second); s.job(jobArgs{Action: "tail", ID: a.JobID}).Stdout != "late\n"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what it prints later is not there")
		}
	}
	if got := s.job(jobArgs{Action: "kill", ID: a.JobID}); got.Jobs[0].Running || !got.Jobs[0].Left {
		t.Error(got.Output)
	}
	noneNow(h)
	a = s.run("sleep 0.3 &")
	if got := s.job(jobArgs{Action: "wait", ID: a.JobID}); got.Jobs[0].Running {
		t.Error(got.Output)
	}
}

func TestJobInput(t *testing.T) {
	h := newHost(t)
	s := h.session()
	first := "one\n"
	a := s.call(t.Context(), args{Command: `while read -r l; do echo "got $l"; done; echo end`, Stdin: &first, KeepStdin: true})
	if !a.Waiting || a.JobID == "" || a.Stdout != "got one\n" || !strings.Contains(a.Output, "waiting for input") {
		t.Fatalf("%s %+v", a.text(), a.data)
	}
	if got := s.job(jobArgs{Action: "list"}); !got.Jobs[0].Waiting {
		t.Errorf("%s", got.Output)
	}
	if got := s.job(jobArgs{Action: "write", ID: a.JobID, Input: "two"}); got.Error != nil || got.Written != 4 {
		t.Fatal(got.Error)
	}
	if got := s.job(jobArgs{Action: "write", ID: a.JobID, Close: true}); got.Error != nil {
		t.Fatal(got.Error)
	}
	if got := s.job(jobArgs{Action: "wait", ID: a.JobID}); got.Stdout != "got one\ngot two\nend\n" || *got.Jobs[0].ExitCode != 0 {
		t.Errorf("%s", got.Output)
	}
	for id, in := range map[string]string{a.JobID: "x", s.background("sleep 1000"): "x"} {
		if got := s.job(jobArgs{Action: "write", ID: id, Input: in}); got.Error == nil || !strings.Contains(got.Error.Message, "keep_stdin_open") {
			t.Errorf("%+v", got.Result)
		}
	}
	// Writing to a command that does not read its input returns immediately.
	id := s.call(t.Context(), args{Command: "sleep 1000", KeepStdin: true, Background: true}).JobID
	if got := s.job(jobArgs{Action: "write", ID: id, Input: strings.Repeat("x", 1<<20)}); got.Error == nil || !strings.Contains(got.Error.Message, "does not read") {
		t.Errorf("%+v", got.Result)
	}
}

func TestTerminalPromptIsTold(t *testing.T) {
	h := newHost(t)
	s := h.session()
	if s.run("command -v script").Error != nil {
		t.Skip("there is no script(1) to make a terminal with")
	}
	a := s.call(t.Context(), args{Command: `sleep 1000 | script -qec 'read -p "Password: " x </dev/tty' /dev/null`, Timeout: 60_000})
	if !a.Waiting || a.JobID == "" || !strings.Contains(a.Output, "terminal of its own") {
		t.Errorf("%s %+v", a.text(), a.data)
	}
}

func TestJobsOfOthersAreNotSeen(t *testing.T) {
	h := newHost(t)
	one, two := h.session(), h.session()
	id := one.background("sleep 1000")
	for _, action := range []string{"tail", "wait", "kill", "write"} {
		if got := two.job(jobArgs{Action: action, ID: id, Input: "x"}); !errors.Is(got.Error, &tool.Error{Kind: tool.NotFound}) {
			t.Errorf("%s: %+v", action, got.Result)
		}
	}
	if got := two.job(jobArgs{Action: "list"}); len(got.Jobs) != 0 || got.Output != "There are no jobs.\n" {
		t.Error(got.Output)
	}
	if got := one.job(jobArgs{Action: "tail"}); !errors.Is(got.Error, &tool.Error{Kind: tool.InvalidArguments}) || !strings.Contains(got.Error.Message, id) {
		t.Errorf("%+v", got.Result)
	}
}

func TestJobLimits(t *testing.T) {
	h := newHost(t)
	s := h.session()
	for range jobs.MaxRunning {
		s.background("sleep 1000")
	}
	if a := s.call(t.Context(), args{Command: "touch ran", Background: true}); a.Error == nil || !strings.Contains(a.Error.Message, "Too many jobs") {
		t.Errorf("%s", a.text())
	}
	if a := s.call(t.Context(), args{Command: "sleep 0.5; ls", Yield: 100}); a.Error != nil || a.JobID != "" || a.Stdout != "" {
		t.Errorf("a command that cannot become a job is waited for: %s", a.text())
	}
	if a := h.session().call(t.Context(), args{Command: "sleep 1000", Background: true, JobTimeout: 200}); a.Error != nil {
		t.Error(a.text())
	} else if list := s.job(jobArgs{Action: "list"}); len(list.Jobs) != jobs.MaxRunning {
		t.Errorf("%d jobs", len(list.Jobs))
	}
}

func TestJobTimeout(t *testing.T) {
	h := newHost(t)
	s := h.session()
	a := s.call(t.Context(), args{Command: "setsid sleep 1000 & sleep 1000", Background: true, JobTimeout: 200})
	got := s.job(jobArgs{Action: "wait", ID: a.JobID})
	if j := got.Jobs[0]; j.Running || !j.TimedOut {
		t.Errorf("%s", got.Output)
	}
	noneNow(h)
}

func TestMuchOutputOfAJob(t *testing.T) {
	h := newHost(t)
	s := h.session()
	id := s.background("seq 100000; echo end")
	got := s.job(jobArgs{Action: "wait", ID: id, Lines: 3})
	if got.Stdout != "99999\n100000\nend\n" || len(got.Files) != 1 {
		t.Fatalf("%s", got.Output)
	}
	if b, err := os.ReadFile(got.Files[0]); err != nil || strings.Count(string(b), "\n") != 100001 {
		t.Error(err, len(b))
	}
}

// TestReadyShellIsUsed checks that a prestarted shell is used once, and only for the state with which it was started.
func TestReadyShellIsUsed(t *testing.T) {
	h := newHost(t)
	s := h.session()
	pid := func() string { return strings.TrimSpace(s.ok("echo $$")) }
	ready := func() string { return strings.Trim(fmt.Sprint(h.idle()), "[]") }
	pid()
	for range 3 {
		if want, got := ready(), pid(); got != want {
			t.Errorf("shell %s ran it, not %s, which was ready", got, want)
		}
	}
	for what, change := range map[string]func(){
		"state":       func() { s.state = []byte(strings.Clone("no such state")) },
		"environment": func() { t.Setenv("GIVEN", t.Name()) },
		"directory":   func() { s.cwd = filepath.Dir(s.cwd) },
		"replaced directory": func() {
			if err := errors.Join(os.Rename(s.cwd, s.cwd+".old"), os.Mkdir(s.cwd, 0o700)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s = h.session()
		s.ok("x=1")
		pid()
		all := ready()
		change()
		if got := pid(); strings.Contains(" "+all+" ", " "+got+" ") {
			t.Errorf("another %s: a shell ran it that was made for what was before", what)
		}
	}
	// If a prestarted shell is killed, another shell is started.
	s = h.session()
	s.ok("x=1")
	for _, p := range h.idle() {
		if proc, err := os.FindProcess(p); err == nil {
			_ = proc.Kill()
		}
	}
	if got := s.ok("echo ran >> count; cat count; echo $x"); got != "ran\n1\n" {
		t.Errorf("%q", got)
	}
}

func TestReadyShellsAreBounded(t *testing.T) {
	h := newHost(t)
	for range 30 {
		h.session().ok("true")
	}
	if n := len(h.idle()); n != 8 {
		t.Errorf("%d shells wait", n)
	}
	if got := h.session().ok("jobs; all=$(ps -o pid= --ppid $$); wc -l <<<$all"); strings.TrimSpace(got) != "1" { // the shell has no child except ps
		t.Errorf("%q", got)
	}
}

func TestFiftySessions(t *testing.T) {
	h := newHost(t)
	var all sync.WaitGroup
	for i := range 50 {
		s := h.session()
		all.Go(func() {
			for j := range 4 {
				want := fmt.Sprintf("%d.%d %d %s\n", i, j, i, s.cwd)
				if a := s.run(fmt.Sprintf(`[[ ${id-%[1]d} == %[1]d ]] || echo mixed; id=%[1]d; sleep 0.0$((RANDOM %% 5)); echo %[1]d.%[2]d $id $PWD`, i, j)); a.Stdout != want {
					t.Errorf("%q, want %q; %s", a.Stdout, want, a.text())
				}
			}
		})
	}
	all.Wait()
}

func TestCanceledWaitLeavesTheJob(t *testing.T) {
	h := newHost(t)
	s := h.session()
	id := s.background("sleep 1000")
	got := s.job(jobArgs{Action: "wait", ID: id, Timeout: 100})
	if !got.Jobs[0].Running {
		t.Error(got.Output)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := s.call(ctx, args{Command: "true"}); a.Error == nil && a.ExitCode != 0 {
		t.Error(a.text())
	}
	if got := s.job(jobArgs{Action: "list"}); !got.Jobs[0].Running {
		t.Error(got.Output)
	}
}
