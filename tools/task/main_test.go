package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/tools/project"
)

// repository returns a task for this repository with the environment env, and the output of the task.
func repository(t *testing.T, env map[string]string) (*task, *strings.Builder) {
	t.Helper()
	p, err := project.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	out := new(strings.Builder)
	return &task{Project: p, out: out, getenv: func(name string) string { return env[name] }}, out
}

// TestMakefile checks that each task is a target with a description and that the Makefile is short.
func TestMakefile(t *testing.T) {
	t.Parallel()
	r, _ := repository(t, nil)
	b, err := os.ReadFile(r.Path("Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if n := strings.Count(text, "\n"); n > 70 {
		t.Errorf("the Makefile has %d lines, the limit is 70", n)
	}
	list := regexp.MustCompile(`(?m)^TARGETS := (.*)$`).FindStringSubmatch(text)
	checks := regexp.MustCompile(`(?m)^CHECKS := (.*)$`).FindStringSubmatch(text)
	if list == nil || checks == nil {
		t.Fatal("the Makefile has no TARGETS or no CHECKS")
	}
	targets := strings.Fields(strings.ReplaceAll(list[1], "$(CHECKS)", checks[1]))
	for name := range tasks {
		if !slices.Contains(targets, name) {
			t.Errorf("%s is no target of the Makefile", name)
		}
	}
	for _, name := range targets {
		if tasks[name] == nil {
			t.Errorf("the target %s is no task", name)
		}
		if !regexp.MustCompile(`(?m)^` + name + `:.*## .`).MatchString(text) {
			t.Errorf("make help does not list %s", name)
		}
	}
}

func TestUnknownTask(t *testing.T) {
	t.Parallel()
	if err := run([]string{"chek"}); err == nil || !strings.Contains(err.Error(), "use one of bench, build,") {
		t.Error(err)
	}
}

// TestReport checks that report prints all errors except errors of programs.
func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	program := exec.Command("sh", "-c", "exit 3").Run()
	report(&out, errors.Join(program, fmt.Errorf("apt: %w", program), errors.Join(errors.New("first"), errors.New("second"))))
	if out.String() != "first\nsecond\n" {
		t.Errorf("%v: %q", program, out.String())
	}
}

// TestLeftOut checks that a check that cannot run on this machine is an error only in CI.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	r, out := repository(t, nil)
	if err := r.leftOut("all.", "install it"); err != nil || out.String() != "LEFT OUT: all.\n" {
		t.Errorf("%v, %q", err, out)
	}
	r, out = repository(t, map[string]string{"CI": "true"})
	err := r.leftOut("all.", "install it")
	if err == nil || err.Error() != "CI must leave nothing out: install it" || out.String() != "LEFT OUT: all.\n" {
		t.Errorf("%v, %q", err, out)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	r := &task{Project: &project.Project{Root: t.TempDir()}}
	const grammar = "plugins/grep/grammar/wasm/a.gz"
	for name, size := range map[string]int64{"small": maxFile, "large": maxFile + 1, grammar: maxFile + 1} {
		path := r.Path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.tooLarge([]string{"small", grammar, "deleted"}); err != nil {
		t.Error(err)
	}
	if err := r.tooLarge([]string{"small", "large"}); err == nil || !strings.HasPrefix(err.Error(), "large: tracked with 1048577 bytes") {
		t.Error(err)
	}
}
