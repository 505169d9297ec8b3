package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host"
)

// TestApplyNamesJobs applies a branch in which jobs run, from another process and through the library. The jobs refuse the
// apply until a person says that they end.
func TestApplyNamesJobs(t *testing.T) {
	needsNamespaces(t)
	h, ws, state := branchHost(t, map[string]string{"a": "a"})
	inBranch(t, h, "b", "echo b > b; sleep 347 & echo $!", "")
	inBranch(t, h, "b", "job list", "sleep 347")
	apply := func(args ...string) (string, error) {
		c := exec.Command(filepath.Join(bin, "toolhost"), append([]string{"--state", state, "branch", "apply", "b"}, args...)...)
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
	if out, _ := exec.Command("pgrep", "-f", "sleep 347").Output(); len(out) > 0 {
		t.Errorf("the job still runs: %s", out)
	}
	inBranch(t, h, "b", "sleep 348 & echo c > c", "")
	if _, err := h.ApplyBranch(t.Context(), host.Request{Branch: "b"}, host.BranchSelection{StopJobs: true}); err != nil {
		t.Error(err)
	}
	// A job that has ended refuses nothing.
	inBranch(t, h, "b", "echo d > d; true & wait", "")
	if text, err := apply(); err != nil {
		t.Errorf("the apply printed %s", text)
	}
}

// TestApplyNamesJobsOverHTTP is TestApplyNamesJobs for a caller of /v1.
func TestApplyNamesJobsOverHTTP(t *testing.T) {
	t.Parallel()
	needsNamespaces(t)
	p := newPrincipals(t, "principal \"alice\" {}\n")
	alice := p.as("alice")
	alice.output(`{"command":"echo j > byjob; sleep 349 & true","branch":"jobs"}`)
	alice.want(409, "sleep 349", "POST", "/v1/branches/jobs/apply", "")
	if _, err := os.Stat(filepath.Join(p.dir, "byjob")); err == nil {
		t.Error("a refused apply changed the workspace")
	}
	alice.want(200, `"path":"byjob"`, "POST", "/v1/branches/jobs/apply", `{"stop_jobs":true}`)
	if text, err := os.ReadFile(filepath.Join(p.dir, "byjob")); err != nil || string(text) != "j\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
