package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"toolhost.dev/tools/project"
)

// goScript is a go command that succeeds and prints its arguments. It knows a few packages with tests.
const goScript = `#!/bin/sh
case "$1" in
list) for p in host/router host/cmd/test/cli host/api host plugins/bash/bash; do echo "toolhost.dev/$p $PWD/$p"; done ;;
*) echo "go $*" ;;
esac
`

// bareRepository returns a task for a repository with a few modules, and its output. On its machine, only git and the
// go command of goScript are installed, and the Debian packages if debian is true.
func bareRepository(t *testing.T, ci string, debian bool) (*task, *strings.Builder) {
	t.Helper()
	cache, out := t.TempDir(), new(strings.Builder)
	r := &task{Project: &project.Project{Root: t.TempDir(), Modules: []string{"host", "plugins/bash", "plugins/grep", "sdk"}}, out: out, getenv: func(name string) string {
		return map[string]string{"CI": ci, "TOOLHOST_BUILD_CACHE": cache}[name]
	}}
	for name, text := range map[string]string{
		"sdk/oracle_test.go": "//go:build !race\n\npackage a\n\nfunc TestOracleA() {}\n", "bench/peers/debian.txt": "", "tools/go.mod": "", "tools/go.sum": "", "examples/legacy/go.mod": "",
		"host/router/a.go": "package a\n\nvar once = sync.OnceValue(f)\n", "host/cmd/test/cli/a_test.go": "package a\n\nfunc f() { go f() }\n", "host/a.go": "package a\n\nvar mu sync.Mutex\n",
		"host/api/a.go": "package a\n\nfunc f() { group.Go(f) }\n", "plugins/bash/bash/a_test.go": "package a\n\nfunc f() { go f() }\n", "plugins/grep/main.go": "", "go.work": "", "go.work.sum": "",
	} {
		if err := os.MkdirAll(filepath.Dir(r.Path(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.Path(name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := exec.CommandContext(t.Context(), "git", "init", "-q", r.Root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	entry, err := r.cacheEntry("tools", "tools/go.mod", "tools/go.sum")
	if err == nil {
		err = os.Mkdir(entry, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(entry, "gotestsum"), []byte("#!/bin/sh\necho \"gotestsum $*\"\n"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	if debian {
		entry, err := r.debianEntry()
		if err == nil {
			err = os.MkdirAll(entry, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r, out
}

// TestUnitLeavesOut checks which tests run, and which are skipped on a machine on which only git and a go command are
// installed.
func TestUnitLeavesOut(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(git, filepath.Join(bin, "git")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(goScript), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	const leftDebian, leftNPM = "LEFT OUT: plugins in Python", "LEFT OUT: the comparison with ripgrep"
	packages := " -p " + strconv.Itoa(runtime.GOMAXPROCS(0)+1)
	run := []string{
		"test tools\n", " -- -vet=off -timeout 40m ./...\n", "test oracles\n", " -- -vet=off -timeout 40m -run ^TestOracle ./sdk\n",
		"test programs\n", " -- -vet=off -timeout 40m -skip ^TestOracle -parallel ", " toolhost.dev/host/router toolhost.dev/host/cmd/test/cli\n",
		// These begin with the packages whose tests take longest.
		"test race\n", " -- -vet=off -timeout 40m -race" + packages + " toolhost.dev/plugins/bash/bash toolhost.dev/host toolhost.dev/host/api\n",
		"test docs\n", " -- -vet=off -timeout 40m -tags=oracle,docs -run ",
	}
	for _, c := range []struct {
		ci      string
		debian  bool
		err     string
		printed []string
	}{
		{"", false, "", slices.Concat([]string{leftDebian}, run, []string{leftNPM})},
		{"true", false, "CI must leave nothing out: run it on Debian 12", []string{leftDebian}},
		{"true", true, "CI must leave nothing out: install npm", slices.Concat(run, []string{leftNPM})},
	} {
		r, out := bareRepository(t, c.ci, c.debian)
		err := r.unit()
		if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("CI=%s, %t: %v", c.ci, c.debian, err)
		}
		rest := out.String()
		for _, want := range c.printed {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("CI=%s, %t: no %q in\n%s", c.ci, c.debian, want, out)
			}
			rest = after
		}
		if len(c.printed) == 1 && strings.Contains(out.String(), "test ") {
			t.Errorf("tests ran:\n%s", out)
		}
		// The tests of the documents passed, so they do not run again.
		out.Reset()
		if _ = r.unit(); c.err != "CI must leave nothing out: run it on Debian 12" && (!strings.Contains(out.String(), "test-docs: passed before") || strings.Contains(out.String(), "test docs\n")) {
			t.Errorf("the second run:\n%s", out)
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
	for _, p := range first {
		dir := strings.TrimPrefix(p, "toolhost.dev/")
		if tests, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go")); err != nil || len(tests) == 0 {
			t.Errorf("%s has no tests; correct the list in test.go, %v", dir, err)
		}
	}
}
