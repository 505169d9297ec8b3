package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// suite is a set of tests that one go command runs.
type suite struct {
	name     string
	dir      string // relative to the root
	env      []string
	flags    []string
	packages []string
}

// maxFlaky is the number of flaky tests that a run may have. A test is flaky if it failed, and then passed when it ran
// again.
const maxFlaky = 3

// suites runs suites one after the other, and then prints which tests were flaky and which were slowest.
func (t *task) suites(all ...suite) error {
	var errs []error
	var seen events
	for _, s := range all {
		fmt.Fprintf(t.out, "test %s\n", s.name)
		log := t.Path("bin/test/" + s.name + ".json")
		err := os.MkdirAll(filepath.Dir(log), 0o755) //nolint:gosec // the build's output
		if err == nil {
			err = t.suite(s, log)
		}
		if err != nil {
			err = fmt.Errorf("the tests %s failed: %w", s.name, err)
		}
		errs = append(errs, err, seen.add(log))
	}
	flaky := seen.flaky()
	seen.slowest(t.out)
	for _, name := range flaky {
		fmt.Fprintln(t.out, "FLAKY "+name)
	}
	for _, name := range seen.failed() {
		fmt.Fprintln(t.out, "FAIL "+name)
	}
	if len(flaky) > maxFlaky {
		errs = append(errs, fmt.Errorf("%d tests failed and then passed when they ran again, more than %d: mend them", len(flaky), maxFlaky))
	}
	return errors.Join(errs...)
}

// suite runs a suite. When all of its tests have ended, those that failed run once more, one after the other. A data race
// is a defect in any case. The events of the tests are written to the file log.
func (t *task) suite(s suite, log string) error {
	args := slices.Concat([]string{
		"--format", "pkgname-and-test-fails", "--format-hide-empty-pkg", "--format-icons", "text", "--hide-summary", "skipped",
		"--rerun-fails=1", "--rerun-fails-abort-on-data-race", "--jsonfile-timing-events", log, "--packages", strings.Join(s.packages, " "),
		"--", "-vet=off", "-count=1", "-timeout", "75m",
	}, s.flags)
	c := t.command(s.dir, s.env, t.tool("gotestsum"), args...)
	c.Stderr = t.out
	return c.Run()
}

// event is a line of the output of "go test -json".
type event struct {
	Action, Package, Test string
	Elapsed               float64 // in seconds
}

// name returns the name of the test with its package.
func (e event) name() string {
	return strings.TrimSuffix(strings.TrimPrefix(e.Package, "toolhost.dev/")+"."+e.Test, ".")
}

// events are the ends of all tests and packages.
type events []event

// add reads the events of a suite. A suite that could not begin has none.
func (all *events) add(log string) error {
	f, err := os.Open(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("%s: %w", log, err)
		}
		*all = append(*all, e)
	}
	return nil
}

// flaky returns the tests that failed and then passed.
func (all events) flaky() []string { return all.failures(true) }

// failed returns the tests and packages that never passed.
func (all events) failed() []string { return all.failures(false) }

// failures returns the tests that failed, and that later passed or not. If a subtest failed, its parents and its package
// failed for the same reason, and are left out.
func (all events) failures(passed bool) []string {
	var names []string
	for _, e := range all {
		is := func(action string) bool {
			return slices.ContainsFunc(all, func(o event) bool { return o.Action == action && o.name() == e.name() })
		}
		if e.Action == "fail" && !slices.ContainsFunc(all, e.failedIn) && is("pass") == passed {
			names = append(names, e.name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// failedIn reports whether o is the failure of a part of e.
func (e event) failedIn(o event) bool {
	return o.Action == "fail" && o.Package == e.Package && o.Test != e.Test && (e.Test == "" || strings.HasPrefix(o.Test, e.Test+"/"))
}

// slowest prints the tests and packages that took longest. It omits subtests, because their time is part of that of their
// parents, except the scripts of TestScripts.
func (all events) slowest(w io.Writer) {
	for _, kind := range []string{"packages", "tests"} {
		var of []event
		for _, e := range all {
			isTest := e.Test != "" && e.Test != "TestScripts" && (!strings.Contains(e.Test, "/") || strings.HasPrefix(e.Test, "TestScripts/"))
			if (e.Action == "pass" || e.Action == "fail") && (kind == "tests" && isTest || kind == "packages" && e.Test == "") {
				of = append(of, e)
			}
		}
		slices.SortStableFunc(of, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
		fmt.Fprintf(w, "slowest %s:\n", kind)
		for _, e := range of[:min(len(of), 10)] {
			fmt.Fprintf(w, "%8.1f s  %s\n", e.Elapsed, e.name())
		}
	}
}
