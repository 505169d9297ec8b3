package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestRequirementProblems(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, s := range lastRequirement {
		for n := 1; n <= s.last; n++ {
			fmt.Fprintf(&all, "| %s%d | What it does. | `script/some` |\n", s.section, n)
		}
	}
	whole := all.String()
	for name, tc := range map[string]struct{ text, want string }{
		"whole":        {whole, ""},
		"no row":       {strings.Replace(whole, "| B2 |", "| Z2 |", 1), "no row for B2"},
		"no test":      {strings.Replace(whole, "| C3 | What it does. | `script/some` |", "| C3 | What it does. | none |", 1), "C3 has no test"},
		"missing test": {strings.Replace(whole, "`script/some`", "`script/other`", 1), "script/other of A1 does not exist"},
		"two rows":     {whole + "| D1 | Again. | `script/some` |\n", "D1 has two rows"},
	} {
		var got []string
		for _, p := range requirementProblems(tc.text, func(name string) bool { return name == "script/some" }) {
			got = append(got, p.Error())
		}
		if text := strings.Join(got, "\n"); tc.want == "" && text != "" || !strings.Contains(text, tc.want) || len(got) > 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTestExists(t *testing.T) {
	r, _ := repository(t, nil)
	for name, want := range map[string]bool{
		"script/edit": true, "script/never": false, "tools/task.TestTestExists": true, "tools/task.TestNever": false, "TestTestExists": false, "../tools/task.testExists": false,
	} {
		if r.testExists(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
