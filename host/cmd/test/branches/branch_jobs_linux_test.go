package branches

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tool"
)

// TestApplyNamesJobs checks that a branch in which jobs run is applied only if the caller agrees to end the jobs. The
// error must name the jobs. The test applies the branch from another process and through the library.
func TestApplyNamesJobs(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	h, ws, state := branchHost(t, map[string]string{"a": "a"})
	inBranch(t, h, "b", "echo b > b; sleep 347 & echo $!", "")
	inBranch(t, h, "b", "job list", "sleep 347")
	apply := func(args ...string) (string, error) {
		c := hosttest.Command(append([]string{"--state", state, "branch", "apply", "b"}, args...)...)
		c.Dir = ws
		text, err := c.CombinedOutput()
		return string(text), err
	}
	text, err := apply()
	for _, want := range []string{"nothing was applied", "job-", "sleep 347", "--stop-jobs"} {
		if err == nil || !strings.Contains(text, want) {
			t.Errorf("the apply printed %q, want %q", text, want)
		}
	}
	var jobs *host.BranchJobsError
	if _, err := h.ApplyBranch(t.Context(), host.Request{Branch: "b"}, host.BranchSelection{}); !errors.As(err, &jobs) || len(jobs.Jobs) != 1 {
		t.Errorf("the library returned %v", err)
	}
	if _, err := os.Stat(filepath.Join(ws, "b")); err == nil {
		t.Error("a refused apply changed the workspace")
	}
	inBranch(t, h, "b", "job list", "running")
	if text, err := apply("--stop-jobs"); err != nil || !strings.Contains(text, "new file b") {
		t.Errorf("the apply printed %s", text)
	}
	if slices.ContainsFunc(hosttest.Descendants(), func(p hosttest.Process) bool { return p.Command() == "sleep 347" }) {
		t.Error("the job still runs")
	}
	inBranch(t, h, "b", "sleep 348 & echo c > c", "")
	if _, err := h.ApplyBranch(t.Context(), host.Request{Branch: "b"}, host.BranchSelection{StopJobs: true}); err != nil {
		t.Error(err)
	}
	// A job that has ended does not prevent the apply.
	inBranch(t, h, "b", "echo d > d; true & wait", "")
	if text, err := apply(); err != nil {
		t.Errorf("the apply printed %s", text)
	}
}

// TestAskKeepsJobs checks that a permission ask with a diff does not end the jobs of the branch. If jobs run before the
// ask, the ask names them instead of showing a diff. If a job starts before the user answers, an accepted ask changes
// nothing, and the error names the job.
func TestAskKeepsJobs(t *testing.T) {
	t.Parallel()
	h, _, run := previewHost(t, `
permissions {
  ask "removals" {
    command = ["rm *"]
    show    = "diff"
  }
}
`, map[string]string{"a": "a\n"})
	running := func() bool {
		return strings.Contains(said(h.Run(t.Context(), host.Request{Command: "job list", Branch: "b", Session: "second"}, nil)), "running")
	}
	yes := &approver{answer: tool.Accepted}
	if res := run(yes, "b", "echo 1 > f; echo 2 > g"); !res.Success() || len(yes.asks) > 0 {
		t.Fatalf("%s", said(res))
	}
	if res := run(yes, "b", "rm g"); !res.Success() || len(yes.asks) != 1 || diffOf(yes.asks[0]) == "" {
		t.Fatalf("%s", said(res))
	}
	meanwhile := func() {
		res := h.Run(t.Context(), host.Request{Command: "sleep 351 &", Branch: "b", Session: "second"}, &approver{answer: tool.Accepted})
		if !res.Success() {
			t.Errorf("%s", said(res))
		}
	}
	res := run(&approver{answer: tool.Accepted, before: meanwhile}, "b", "rm f")
	if res.Success() || !strings.Contains(res.Error.Message, "sleep 351") || !strings.Contains(res.Error.Message, "job kill ID") {
		t.Errorf("the changes were made although a job runs: %s", said(res))
	}
	if !running() {
		t.Error("accepting the changes ended the job")
	}
	named := &approver{answer: tool.Accepted}
	res = run(named, "b", "rm f; echo removed")
	if len(named.asks) != 1 || diffOf(named.asks[0]) != "" || !strings.Contains(fmt.Sprint(named.asks[0].Metadata["preview"]), "sleep 351") {
		t.Errorf("the asks are %+v", named.asks)
	}
	if !strings.Contains(said(res), "removed") || !running() {
		t.Errorf("an allowed command beside a job: %s", said(res))
	}
}

// TestApplyNamesJobsOverHTTP checks the same as TestApplyNamesJobs for a caller of /v1.
func TestApplyNamesJobsOverHTTP(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	p := hosttest.NewPrincipals(t, "principal \"alice\" {}\n")
	alice := p.As("alice")
	alice.Output(`{"command":"echo j > byjob; sleep 349 & true","branch":"jobs"}`)
	alice.Want(409, "sleep 349", "POST", "/v1/branches/jobs/apply", "")
	if _, err := os.Stat(filepath.Join(p.Dir, "byjob")); err == nil {
		t.Error("a refused apply changed the workspace")
	}
	alice.Want(200, `"path":"byjob"`, "POST", "/v1/branches/jobs/apply", `{"stop_jobs":true}`)
	if text, err := os.ReadFile(filepath.Join(p.Dir, "byjob")); err != nil || string(text) != "j\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// TestUndoKeepsJobs checks that a job in a branch keeps running and sees the restored files. While the job runs, the
// test undoes calls, creates a checkpoint and restores it.
func TestUndoKeepsJobs(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	h, ws, state := branchHost(t, map[string]string{"conf": "zero\n", "d/x": "x\n"})
	name := fmt.Sprint("the-job-of-", os.Getpid()) // unique, because the test can run twice on a machine at the same time
	const beat = "while :; do cat conf > out/seen; sleep 0.05; done"
	inBranch(t, h, "b", "mkdir out; bash -c '"+beat+"' "+name+" & echo $!", "")
	job := func() int { // returns the first process with this name, because the job forks further processes
		t.Helper()
		for _, p := range hosttest.Descendants() {
			if c := p.Command(); strings.HasPrefix(c, "bash -c while ") && strings.HasSuffix(c, " "+name) {
				return p.PID
			}
		}
		t.Fatal("the job has ended")
		return 0
	}
	before := job()
	sees := func(want string) {
		t.Helper()
		hosttest.Wait(t, "the job sees "+want, func() bool {
			return strings.TrimSpace(h.Run(t.Context(), host.Request{Command: "cat out/seen", Branch: "b"}, nil).Output) == want
		})
		if now := job(); now != before {
			t.Fatalf("the job has the process id %d, and had %d", now, before)
		}
	}
	sees("zero")
	inBranch(t, h, "b", "echo one > conf; rm -r d; mkdir n; echo n > n/n", "")
	sees("one")
	inBranch(t, h, "b", "undo", "These jobs still run")
	sees("zero")
	inBranch(t, h, "b", "cat d/x; ls", "x\nconf\nd\nout\n")
	inBranch(t, h, "b", "job list", "running")

	cli := func(want string, args ...string) {
		t.Helper()
		c := hosttest.Command(append([]string{"--state", state, "branch"}, args...)...)
		c.Dir = ws
		if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("toolhost branch %q printed %s, %v", args, text, err)
		}
	}
	inBranch(t, h, "b", "echo two > conf", "")
	cli("has 3 files", "checkpoint", "b", "-m", "by hand")
	sees("two")
	inBranch(t, h, "b", "echo three > conf", "")
	sees("three")
	cli("Still runs, with the files that it has open", "restore", "b")
	sees("two")

	// While another call runs in the branch, an undo is refused. Otherwise, that call would see files of two different
	// states.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx, host.Request{Command: "touch out/began; sleep 100", Branch: "b", Session: "other"}, nil)
	}()
	hosttest.Wait(t, "the other call has begun", func() bool {
		return h.Run(t.Context(), host.Request{Command: "ls out/began", Branch: "b"}, nil).Success()
	})
	list := h.Run(t.Context(), host.Request{Command: "undo list", Branch: "b"}, nil).Output
	first := strings.Fields(list)[0]
	inBranch(t, h, "b", "undo --to "+first, "Nothing was undone, because other calls run in the branch b")
	cancel()
	<-done

	// While a job runs, the undo of a large change writes through the mount. Without a job, the undo replaces the layer
	// of the branch.
	const large = "mkdir many; cd many; seq 1100 | xargs touch; cd ..; echo four > conf"
	layer := func() uint64 {
		t.Helper()
		var st unix.Stat_t
		all, err := filepath.Glob(filepath.Join(state, "branches/b@*/upper"))
		if err != nil || len(all) != 1 || unix.Lstat(all[0], &st) != nil {
			t.Fatalf("%q %v", all, err)
		}
		return st.Ino
	}
	began := layer()
	inBranch(t, h, "b", large, "")
	sees("four")
	inBranch(t, h, "b", "undo", "These jobs still run")
	sees("two")
	inBranch(t, h, "b", "ls -d many; true", "No such file")
	if layer() != began {
		t.Error("the layer was replaced while a job ran")
	}
	inBranch(t, h, "b", "job kill "+strings.Fields(h.Run(t.Context(), host.Request{Command: "job list", Branch: "b"}, nil).Output)[0], "")
	inBranch(t, h, "b", large, "")
	inBranch(t, h, "b", "undo", "The branch is as it was before")
	inBranch(t, h, "b", "ls -d many; cat conf", "two")
	if layer() == began {
		t.Error("the layer was not replaced, although no job ran")
	}
}
