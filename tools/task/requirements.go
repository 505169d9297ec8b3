package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// requirements is the path of a document. It lists the requirements, each with the tests that prove it.
const requirements = "docs/requirements.md"

// lastRequirement contains the number of the last requirement in each section.
var lastRequirement = []struct {
	section string
	last    int
}{{"A", 7}, {"B", 9}, {"C", 11}, {"D", 7}, {"E", 8}, {"F", 11}, {"G", 2}, {"H", 4}}

var (
	// requirementRow matches a table row. Its groups are the id of the requirement and the column with the tests.
	requirementRow = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|.*\| ([^|]*) \|$`)
	// This expression matches a text in backquotes. In the document, these texts are the names of tests.
	quoted = regexp.MustCompile("`([^`]+)`")
)

// checkRequirements checks that the document names a test for each requirement, and that each of these tests exists.
func (t *task) checkRequirements() error {
	b, err := os.ReadFile(t.Path(requirements))
	if err != nil {
		return err
	}
	return errors.Join(requirementProblems(string(b), t.testExists)...)
}

// requirementProblems returns the problems of the document. The function "exists" reports whether a test exists.
func requirementProblems(text string, exists func(name string) bool) (problems []error) {
	seen := make(map[string]bool)
	for _, row := range requirementRow.FindAllStringSubmatch(text, -1) {
		id, tests := row[1], quoted.FindAllStringSubmatch(row[2], -1)
		if seen[id] {
			problems = append(problems, fmt.Errorf("%s: %s has two rows; join them", requirements, id))
		}
		seen[id] = true
		if len(tests) == 0 {
			problems = append(problems, fmt.Errorf("%s: the requirement %s has no test; write one, and name it in the row of the requirement", requirements, id))
		}
		for _, test := range tests {
			if !exists(test[1]) {
				problems = append(problems, fmt.Errorf("%s: the test %s of %s does not exist; correct its name", requirements, test[1], id))
			}
		}
	}
	for _, s := range lastRequirement {
		for n := 1; n <= s.last; n++ {
			if id := fmt.Sprint(s.section, n); !seen[id] {
				problems = append(problems, fmt.Errorf("%s has no row for %s; add one with its tests", requirements, id))
			}
		}
	}
	return problems
}

// testExists reports whether a test exists. The name has the form "script/NAME" or "DIRECTORY.TestNAME".
func (t *task) testExists(name string) bool {
	if script, ok := strings.CutPrefix(name, "script/"); ok {
		found, err := filepath.Glob(t.Path("host/cmd/test/*/testdata/*/" + script + ".txtar"))
		return err == nil && len(found) > 0
	}
	dir, function, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	files, err := filepath.Glob(filepath.Join(t.Path(dir), "*_test.go"))
	if err != nil {
		return false
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "\nfunc "+function+"(t *testing.T)") {
			return true
		}
	}
	return false
}
