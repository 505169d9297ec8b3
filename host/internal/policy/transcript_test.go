package policy_test

import (
	"encoding/json"
	"os"
	"sort"
	"testing"

	"toolhost.dev/host/internal/policy"
)

// TestTranscript counts how often the modes "open" and "careful" ask about the commands in a file, and logs these
// commands. The environment variable TOOLHOST_TRANSCRIPT names the file, a JSON array of scripts.
// TOOLHOST_TRANSCRIPT_WORKSPACE names the workspace, which must be a git repository with a changed file: otherwise, git
// commands lose nothing.
func TestTranscript(t *testing.T) {
	file, ws := os.Getenv("TOOLHOST_TRANSCRIPT"), os.Getenv("TOOLHOST_TRANSCRIPT_WORKSPACE")
	if file == "" {
		t.Skip("TOOLHOST_TRANSCRIPT names no file")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	if err := json.Unmarshal(text, &commands); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, mode := range []string{"open", "careful"} {
		p := policy.New(policy.Rules{Careful: mode == "careful"})
		count, all := make(map[string]int), 0
		for _, c := range commands {
			req := command(t, ws, c)
			d := p.Judge(req)
			rule := d.Rule
			if d.Effect == policy.Allow && mode == "careful" && policy.CanDelete(req) {
				rule = "delete, if the files existed before"
			} else if d.Effect == policy.Allow {
				continue
			}
			count[rule]++
			all++
			t.Logf("%s\t%s\t%.200s", mode, rule, c)
		}
		rules := make([]string, 0, len(count))
		for r := range count {
			rules = append(rules, r)
		}
		sort.Strings(rules)
		for _, r := range rules {
			t.Logf("%s: %4d %s", mode, count[r], r)
		}
		t.Logf("%s: %d of %d commands, %.1f %%", mode, all, len(commands), 100*float64(all)/float64(max(1, len(commands))))
		asked = all
	}
	if asked == 0 {
		t.Error("the mode careful asks about nothing, so that the file cannot be a transcript")
	}
}
