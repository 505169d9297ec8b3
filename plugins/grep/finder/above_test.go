package finder

import (
	"os"
	"testing"
)

// TestRulesAbove changes ignore files in the directories above the one that calls look in.
func TestRulesAbove(t *testing.T) {
	h := newHost(t, ".git/HEAD=x", "sub/deep/d.txt=needle\n", "sub/deep/e.log=needle\n", "other/f.log=needle\n")
	hosts := h.inWays("disk", "events", "stat", "few")
	check := func(name string) {
		t.Helper()
		for _, a := range []args{{"path": "sub/deep", "pattern": "needle"}, {"path": "sub/deep", "pattern": "needle", "glob": "*.*"}} {
			agreeOn(t, name, hosts, "grep", a)
		}
	}
	check("before")
	h.add(".ignore=*.log\n")
	check("at the top")
	h.add("sub/.ignore=!*.log\n")
	check("in between")
	must(t, os.Remove(h.path(".ignore")))
	must(t, os.Remove(h.path("sub/.ignore")))
	check("none")
}
