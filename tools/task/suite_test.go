package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/tools/project"
)

// sometimes is a Go file with tests. The test Flaky, and with MANY a script and others, fail the first time and pass
// the second time.
const sometimes = `package a

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	status := m.Run()
	fmt.Println("starts of toolhost: 3")
	os.Exit(status)
}

func again(t *testing.T, name string) {
	if _, err := os.Stat(name); err != nil {
		os.WriteFile(name, nil, 0o600)
		t.Fatal("the first time")
	}
}

func TestGood(t *testing.T) {}

func TestFlaky(t *testing.T) { again(t, "flaky") }

func TestScripts(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Run("one", func(t *testing.T) {
		if os.Getenv("MANY") != "" {
			again(t, "one")
		}
	})
}

func TestHopeless(t *testing.T) {
	println("panic: this is only a text")
	if os.Getenv("NEVER") != "" {
		t.Fatal("never passes")
	}
}

func TestRest(t *testing.T) {
	for _, name := range []string{"x", "y"} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("MANY") != "" {
				again(t, name)
			}
		})
	}
}
`

// TestFlakyTests checks a run with real tests: those that fail once are named and permitted, too many are not, and a
// test that fails twice fails the run.
func TestFlakyTests(t *testing.T) {
	t.Parallel()
	p, err := project.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := (&task{Project: p, out: os.Stderr, getenv: os.Getenv}).tools(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env    string
		lines  []string
		failed string
	}{
		{"A=", []string{"FLAKY example.org/a.TestFlaky"}, ""},
		{"MANY=1", []string{"FLAKY example.org/a.TestFlaky", "FLAKY example.org/a.TestRest/x", "FLAKY example.org/a.TestRest/y", "FLAKY example.org/a.TestScripts/one"}, "4 tests failed and then passed when they ran again, more than 1"},
		{"NEVER=1", []string{"FLAKY example.org/a.TestFlaky", "FAIL example.org/a.TestHopeless"}, "the tests a failed"},
	} {
		out := new(strings.Builder)
		r := &task{Project: &project.Project{Root: t.TempDir()}, out: out, getenv: os.Getenv}
		if err := os.MkdirAll(r.Path("bin"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(p.Path(pinnedDir), r.Path(pinnedDir)); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(r.Root, "go.mod"), "module example.org/a\n\ngo 1.26\n")
		write(t, filepath.Join(r.Root, "a_test.go"), sometimes)
		err := r.suites(suite{name: "a", dir: ".", env: append(slices.Clone(standalone), c.env), packages: []string{"./..."}})
		if c.failed == "" && err != nil || c.failed != "" && (err == nil || !strings.Contains(err.Error(), c.failed)) {
			t.Errorf("%s: %v\n%s", c.env, err, out)
		}
		var lines []string
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "FLAKY") || strings.HasPrefix(line, "FAIL example.org/a.") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		if !slices.Equal(lines, c.lines) {
			t.Errorf("%s: %q\n%s", c.env, lines, out)
		}
		if want := "\nstarts of toolhost: 6\n"; c.env == "A=" && !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out)
		}
		if want := "slowest tests:\n"; !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}
