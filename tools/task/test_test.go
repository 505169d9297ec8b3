package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/tools/project"
)

// TestUnitLeavesOut runs the tests of a small repository on a machine on which only a go command is installed. The
// go command is a script that succeeds and prints its arguments.
func TestUnitLeavesOut(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\necho \"go $*\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	const debian, npm = "LEFT OUT: plugins in Python", "LEFT OUT: the comparison with ripgrep"
	for _, c := range []struct {
		ci      string
		debian  bool
		err     string
		printed []string
	}{
		{"", false, "", []string{debian, "test tools", "test host", "test sdk", npm}},
		{"true", false, "CI must leave nothing out: run it on Debian 12", []string{debian}},
		{"true", true, "CI must leave nothing out: install npm", []string{"test tools", "test host", "test sdk", npm}},
	} {
		r := &task{Project: &project.Project{Root: t.TempDir(), Modules: []string{"host", "plugins/bash", "plugins/grep", "sdk"}}, getenv: func(string) string { return c.ci }}
		out := new(strings.Builder)
		r.out = out
		for _, dir := range append(slices.Clone(r.Modules), "tools", "bench/peers") {
			if err := os.MkdirAll(r.Path(dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(r.Path("sdk/oracle_test.go"), []byte("//go:build !race\n\npackage a\n\nfunc TestOracleA() {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.Path("bench/peers/debian.txt"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.debian {
			if err := r.stamp("bench/peers/debian/.installed"); err != nil {
				t.Fatal(err)
			}
		}
		err := r.unit()
		if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%+v: %v", c, err)
		}
		rest := out.String()
		for _, want := range c.printed {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%+v: no %q in\n%s", c, want, out)
			}
			rest = after
		}
		if ran := strings.Contains(out.String(), "-run ^TestOracle ./sdk\n"); ran != (len(c.printed) > 1) {
			t.Errorf("%+v: the oracle tests ran: %t\n%s", c, ran, out)
		}
		if raced := strings.Count(out.String(), " -race ./..."); raced > 0 && raced != len(r.Modules) {
			t.Errorf("%+v: %d modules with the race detector\n%s", c, raced, out)
		}
	}
}

// TestSlowChecks checks that the Makefile leaves exactly the slow checks to the target test, which runs all of them and fails
// if one of them fails.
func TestSlowChecks(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if want := "test: $(filter-out " + strings.Join(slowChecks, " ") + ",$(CHECKS))"; !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile does not contain %q", want)
	}
	r := &task{Project: &project.Project{Root: t.TempDir()}, getenv: os.Getenv}
	out := new(strings.Builder)
	r.out = out
	if err := os.MkdirAll(r.Path("bin/tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Path("bin/tools/task"), []byte("#!/bin/sh\necho \"ran $1\"\ntest $1 != check-lint\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.beside(slowChecks); err == nil || !strings.HasPrefix(err.Error(), "check-lint: ") {
		t.Errorf("a failed check returns %v", err)
	}
	for _, check := range slowChecks {
		if !strings.Contains(out.String(), check+"\nran "+check+"\n") {
			t.Errorf("no output of %s in\n%s", check, out)
		}
		if tasks[check] == nil {
			t.Errorf("%s is no target", check)
		}
	}
}
