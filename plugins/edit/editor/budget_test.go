//go:build !race

package editor_test

import (
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestOracleBudget checks that an edit is refused and changes nothing if it would take too much time or memory.
func TestOracleBudget(t *testing.T) {
	large := strings.Repeat("a line of the file\n", 33<<20/19) + "the end\n"
	slow := strings.Repeat("a line of the file\n", 12<<20/19) + "value0\n"
	h, dir := session(t, map[string]string{"large.txt": large, "two.txt": large, "three.txt": large, "slow.txt": slow})
	pair := func(old, now string) args { return args{"old_string": old, "new_string": now} }
	diff := ""
	for _, name := range []string{"large.txt", "two.txt", "three.txt"} {
		diff += fmt.Sprintf("--- a/%[1]s\n+++ b/%[1]s\n@@ -1,2 +1,2 @@\n a line of the file\n-the end\n+The end\n", name)
	}
	many := make([]args, 2000)
	for i := range many {
		many[i] = pair(fmt.Sprintf("value%d", i), fmt.Sprintf("value%d", i+1))
	}
	for name, c := range map[string]struct {
		args  args
		words []string
	}{
		"texts":   {args{"file_path": "large.txt", "old_string": "the end\n", "new_string": strings.Repeat("x", 9<<20)}, []string{"9 MiB", "8 MiB", "write"}},
		"diff":    {args{"diff": "--- a/two.txt\n+++ b/two.txt\n@@ -1 +1 @@\n-the end\n+" + strings.Repeat("x", 9<<20) + "\n"}, []string{"8 MiB"}},
		"several": {args{"file_path": "large.txt", "edits": []args{pair("the end", "The end"), pair("The end", "THE END")}}, []string{"edit 2 of 2", "several edits in one call are possible up to 32 MiB"}},
		"hunks":   {args{"diff": "--- a/two.txt\n+++ b/two.txt\n@@ -9 +9 @@\n-the end\n+The end\n@@ -99 +99 @@\n-The end\n+THE END\n"}, []string{"Hunk 2 of 2", "several edits in one call are possible up to 32 MiB"}},
		"files":   {args{"diff": diff}, []string{"file 3 of 3, three.txt", "96 MiB together"}},
		"time":    {args{"file_path": "slow.txt", "edits": many}, []string{"of 2000 failed", "Make fewer edits"}},
	} {
		t.Run(name, func(t *testing.T) {
			h.Refuses("edit", c.args, tool.InvalidArguments, c.words...)
		})
	}
	for name, text := range map[string]string{"large.txt": large, "two.txt": large, "three.txt": large, "slow.txt": slow} {
		if get(t, dir+"/"+name) != text {
			t.Errorf("%s was changed", name)
		}
	}
	if res := h.Call("edit", args{"file_path": "large.txt", "old_string": "the end", "new_string": "The end"}); !res.Success() {
		t.Error(res.Error)
	}
}
