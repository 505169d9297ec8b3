package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/tools/project"
)

// TestUnitLeavesOut checks which tests are skipped on a machine on which only a go command is installed. The go command
// and gotestsum are scripts that succeed and print their arguments.
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
		{"", false, "", []string{debian, "test tools", "test all", npm}},
		{"true", false, "CI must leave nothing out: run it on Debian 12", []string{debian}},
		{"true", true, "CI must leave nothing out: install npm", []string{"test tools", "test all", npm}},
	} {
		cache := t.TempDir()
		r := &task{Project: &project.Project{Root: t.TempDir(), Modules: []string{"host", "plugins/bash", "plugins/grep", "sdk"}}, getenv: func(name string) string { return map[string]string{"CI": c.ci, "TOOLHOST_BUILD_CACHE": cache}[name] }}
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
		for _, name := range []string{"tools/go.mod", "tools/go.sum"} {
			if err := os.WriteFile(r.Path(name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(r.Path("bin/tools"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.Path("bin/tools/gotestsum"), []byte("#!/bin/sh\necho \"gotestsum $*\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if c.debian {
			entry, err := r.debianEntry()
			if err == nil {
				err = os.MkdirAll(entry, 0o700)
			}
			if err != nil {
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
		if ran := strings.Contains(out.String(), " --packages ./sdk -- -vet=off -count=1 -timeout 75m -run ^TestOracle\n"); ran != (len(c.printed) > 1) {
			t.Errorf("%+v: the oracle tests ran: %t\n%s", c, ran, out)
		}
		// One command tests all modules. It starts with the packages whose tests take longest.
		const all = " --packages ./host/cmd/toolhost ./plugins/bash/bash ./host ./plugins/grep/finder ./sdk/tooltest/conformance ./sdk/toolrpc ./host/internal/branch ./host/... ./plugins/bash/... ./plugins/grep/... ./sdk/... -- -vet=off -count=1 -timeout 75m -race\n"
		if ran := strings.Contains(out.String(), all); ran != (len(c.printed) > 1) {
			t.Errorf("%+v: the tests of all modules ran: %t\n%s", c, ran, out)
		}
	}
}

// TestRunsAllChecks checks that "make test" runs each check. Only check-vet is left out, as TestLintFindsWhatVetFinds
// explains.
func TestRunsAllChecks(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\ntest: $(filter-out check-vet,$(CHECKS)) "; !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile does not contain %q", want)
	}
}

// TestLongestTestsExist checks that the packages whose tests start first have tests.
func TestLongestTestsExist(t *testing.T) {
	t.Parallel()
	for _, dir := range first {
		if tests, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go")); err != nil || len(tests) == 0 {
			t.Errorf("%s has no tests; correct the list in test.go, %v", dir, err)
		}
	}
}
