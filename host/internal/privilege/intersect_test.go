package privilege

import (
	"slices"
	"strings"
	"testing"
)

// more removes the increases that an intersection ignores. It ignores hooks, because a hook that does not work would
// stop all calls. It converts rules of the new configuration to the kind of rules that can only restrict.
func more(texts []string) []string {
	ignored := []string{"the hook", "the rule", "permissions.programs.ask lacks", "permissions.programs.allow has", "permissions.programs.ask has"}
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return slices.ContainsFunc(ignored, func(p string) bool { return strings.HasPrefix(text, p) })
	})
}

// TestIntersect checks pairs of configurations that differ in one right. The intersection must permit no more than
// either configuration. It must remove a right exactly if the new configuration does so.
func TestIntersect(t *testing.T) {
	read, _ := reader(t)
	restricting := 0
	for _, tc := range changes {
		for _, dir := range []struct{ old, now, gained, lost string }{{tc.wide, tc.narrow, tc.back, tc.want}, {tc.narrow, tc.wide, tc.want, tc.back}} {
			old, now := read(dir.old), read(dir.now)
			out, taken := Intersect(old, now)
			for _, than := range []struct {
				text  string
				wider []string
			}{{"the old one", more(Increases(old, out, nil))}, {"the new one", more(Increases(now, out, nil))}} {
				if len(than.wider) > 0 {
					t.Errorf("from\n%s\nto\n%s\nthe intersection permits more than %s: %q", dir.old, dir.now, than.text, than.wider)
				}
			}
			if free := len(more([]string{dir.lost})) == 0; dir.lost != "" && !free && len(taken) == 0 || dir.lost == "" && dir.gained != "" && len(taken) > 0 {
				t.Errorf("from\n%s\nto\n%s\ntaken away: %q, but the way back increases %q", dir.old, dir.now, taken, dir.lost)
			}
			if len(taken) > 0 {
				restricting++
			}
			for _, p := range old.Plugins {
				if !slices.ContainsFunc(taken, confines) && out.Plugin(p.Name) != nil && !out.SameProcess(old, p.Name) {
					t.Errorf("from\n%s\nto\n%s\nthe plugin %s restarts, but only this was taken away: %q", dir.old, dir.now, p.Name, taken)
				}
			}
			if _, again := Intersect(out, now); len(again) > 0 {
				t.Errorf("from\n%s\nto\n%s\na second intersection takes away %q", dir.old, dir.now, again)
			}
		}
	}
	if restricting < 40 {
		t.Errorf("only %d changes took something away", restricting)
	}
}

// confines reports whether a removed right, described by a text, is part of the sandbox of a process.
func confines(text string) bool {
	return !strings.HasSuffix(text, " is removed") && !strings.HasPrefix(text, "tool ")
}
