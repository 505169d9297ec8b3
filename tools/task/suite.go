package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
const maxFlaky = 1

// suites runs suites one after the other. Then the tests that failed run once more, each alone. At the end, suites
// prints which tests were flaky, which failed, and which were slowest.
func (t *task) suites(all ...suite) error {
	var errs []error
	var seen events
	for _, s := range all {
		fmt.Fprintf(t.out, "test %s\n", s.name)
		of, err := t.suite(s)
		seen = append(seen, of...)
		if again, ok := of.again(); err != nil && ok {
			err = nil
			for _, e := range again {
				s.packages = []string{e.Package}
				of, repeated := t.suite(s, "-count=1", "-run", e.pattern())
				seen = append(seen, of...)
				err = errors.Join(err, repeated)
			}
		}
		if err != nil {
			err = fmt.Errorf("the tests %s failed: %w", s.name, err)
		}
		errs = append(errs, err)
	}
	flaky := seen.flaky()
	seen.slowest(t.out)
	fmt.Fprintf(t.out, "%s%d\n", startsPrefix, seen.starts())
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

// suite runs a suite with additional flags, and returns how its tests ended.
func (t *task) suite(s suite, flags ...string) (events, error) {
	log := t.Path("bin/test/" + s.name + ".json")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil { //nolint:gosec // the build's output
		return nil, err
	}
	args := slices.Concat([]string{
		"--format", "pkgname-and-test-fails", "--format-hide-empty-pkg", "--format-icons", "text", "--hide-summary", "skipped", "--jsonfile", log, "--",
		"-vet=off", "-timeout", "40m",
	}, s.flags, flags, s.packages)
	c := t.command(s.dir, s.env, t.tool("gotestsum"), args...)
	c.Stderr = t.out
	err := c.Run()
	of, readErr := readEvents(log)
	return of, errors.Join(err, readErr)
}

// event is a line of the output of "go test -json".
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // in seconds
}

// name returns the name of the test with its package.
func (e event) name() string {
	return strings.TrimSuffix(strings.TrimPrefix(e.Package, "toolhost.dev/")+"."+e.Test, ".")
}

// pattern returns the pattern with which "go test -run" runs only this test.
func (e event) pattern() string {
	var parts []string
	for part := range strings.SplitSeq(e.Test, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// events are the ends of tests and packages.
type events []event

// raced is a part of what a test prints in which the race detector found a race.
const raced = "race detected during execution of test"

// readEvents reads the events of a suite. A suite that could not begin has none.
func readEvents(log string) (events, error) {
	f, err := os.Open(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var all events
	for in := json.NewDecoder(f); ; {
		var e event
		if err := in.Decode(&e); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", log, err)
		}
		if e.Action != "output" || strings.Contains(e.Output, raced) || strings.HasPrefix(e.Output, startsPrefix) {
			all = append(all, e)
		}
	}
}

// startsPrefix begins a line with the number of starts of toolhost. Each package of tests that starts it prints such a
// line.
const startsPrefix = "starts of toolhost: "

// starts returns the number of starts of toolhost. If Go kept the result of a package, its starts count, too.
func (all events) starts() (n int) {
	for _, e := range all {
		if number, ok := strings.CutPrefix(e.Output, startsPrefix); ok {
			of, _ := strconv.Atoi(strings.TrimSpace(number)) // 0 if it is not a number
			n += of
		}
	}
	return n
}

// maxAgain is the number of failed tests that run again. If more fail, it is not by chance.
const maxAgain = 10

// again returns the tests that are to run again. If it returns false, the suite failed in any case: a data race was
// found, too many tests failed, or a package failed for another reason than its tests.
func (all events) again() ([]event, bool) {
	var failed []event
	for _, e := range all {
		switch {
		case strings.Contains(e.Output, raced):
			return nil, false
		case e.Action == "fail" && !slices.ContainsFunc(all, e.failedIn):
			failed = append(failed, e)
		}
	}
	hasNoTest := slices.ContainsFunc(failed, func(e event) bool { return e.Test == "" })
	return failed, len(failed) > 0 && len(failed) <= maxAgain && !hasNoTest
}

// flaky returns the tests that failed and then passed.
func (all events) flaky() []string { return all.failures(true) }

// failed returns the tests and packages that never passed.
func (all events) failed() []string { return all.failures(false) }

// failures returns the tests that failed, and that later passed or not. If a subtest failed, its parents and its
// package failed for the same reason, and are left out.
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

// slowest prints the tests and packages that took longest. It omits subtests, because the time of their parents
// includes theirs. Scripts run after their parents, so their time is their own.
func (all events) slowest(w io.Writer) {
	for _, kind := range []string{"packages", "tests"} {
		var of []event
		for _, e := range all {
			parent, _, isPart := strings.Cut(e.Test, "/")
			isTest := e.Test != "" && (!isPart || strings.HasSuffix(parent, "Scripts"))
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
