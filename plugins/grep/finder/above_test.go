package finder

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestRulesAbove checks the effect of changes to ignore files above the searched directory.
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

// TestRulesBesideEntries changes git's exclude file and adds a file in the same directory. It checks that the changed
// rules also apply in the directories below.
func TestRulesBesideEntries(t *testing.T) {
	h := newHost(t, ".git/info/exclude=", "sub/deep/x.go=needle\n", "sub/d.txt=needle\n")
	hosts := h.inWays("disk", "events", "stat", "few")
	for _, change := range []string{".git/info/exclude=*.go\n", ".git/info/exclude=*.txt\n", ".ignore=!*.txt\n", ".git/info/exclude="} {
		time.Sleep(50 * time.Millisecond) // the files read so far must be older than one clock tick of the file system
		h.add(change)
		name, _, _ := strings.Cut(change, "=")
		h.add("new" + strings.ReplaceAll(name, "/", "-") + "=needle\n")
		agreeOn(t, change, hosts, "grep", args{"pattern": "needle"})
	}
}
