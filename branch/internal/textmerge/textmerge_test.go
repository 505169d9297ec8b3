package textmerge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name, ancestor, ours, theirs, want, conflict string
	}{
		{name: "one side", ancestor: "a\nb\n", ours: "a\nb\n", theirs: "a\nc\n", want: "a\nc\n"},
		{name: "both sides", ancestor: "a\nb\nc\n", ours: "x\nb\nc\n", theirs: "a\nb\ny\n", want: "x\nb\ny\n"},
		{name: "the same change", ancestor: "a\nb\nc\n", ours: "a\nx\nc\n", theirs: "a\nx\nc\nd\n", want: "a\nx\nc\nd\n"},
		{name: "the same line", ancestor: "a\nb\nc\n", ours: "n\na\nx\nc\n", theirs: "a\ny\nc\n", conflict: "both changed line 3"},
		{name: "neighbors", ancestor: "a\nb\nc\n", ours: "x\nb\nc\n", theirs: "a\ny\nc\n", conflict: "both changed the lines 1 to 2"},
		{name: "two insertions at one place", ancestor: "a\nb\n", ours: "a\nx\nb\n", theirs: "a\ny\nb\n", conflict: "both changed line 2"},
		{name: "deleted and changed", ancestor: "a\nb\nc\n", ours: "a\nc\n", theirs: "a\nx\nc\n", conflict: "both changed line 2"},
		{name: "end without newline", ancestor: "a\nb\nc", ours: "x\nb\nc", theirs: "a\nb\nc\nd\n", want: "x\nb\nc\nd\n"},
		{name: "empty", ancestor: "", ours: "a\n", theirs: "b\n", conflict: "both changed line 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Merge(c.ancestor, c.ours, c.theirs)
			var conflict *ConflictError
			if c.conflict != "" {
				if !errors.As(err, &conflict) || err.Error() != c.conflict {
					t.Errorf("the error is %v, want %s", err, c.conflict)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("merged to %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// TestMergeAsGit makes random merges. Merge must return the same text as git or refuse. It must refuse each merge that
// git refuses.
func TestMergeAsGit(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	change := func(lines []string, side string) []string {
		var out []string
		for i, l := range lines {
			switch r.IntN(25) {
			case 0:
				out = append(out, fmt.Sprintf("%s changed %d", side, i))
			case 1:
				if r.IntN(2) == 0 {
					continue
				}
				out = append(out, l, fmt.Sprintf("%s added %d", side, i))
			case 2:
				if r.IntN(3) == 0 {
					out = append(out, "both added")
				}
				out = append(out, l)
			default:
				out = append(out, l)
			}
		}
		return out
	}
	merged, refused := 0, 0
	for round := range 150 {
		var lines []string
		for i := range 1 + r.IntN(40) {
			lines = append(lines, fmt.Sprintf("line %d", i))
		}
		var texts [3]string
		for i, l := range [][]string{change(lines, "our"), lines, change(lines, "their")} {
			texts[i] = strings.Join(l, "\n") + strings.Repeat("\n", r.IntN(2))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(texts[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Merge(texts[1], texts[0], texts[2])
		c := exec.Command("git", "merge-file", "-p", "0", "1", "2")
		c.Dir = dir
		want, gitErr := c.Output()
		switch {
		case err == nil && gitErr != nil:
			t.Fatalf("round %d: merged to %q, and git refuses\nancestor %q\nours %q\ntheirs %q", round, got, texts[1], texts[0], texts[2])
		case err == nil && got != string(want):
			t.Fatalf("round %d: merged to %q, and git to %q", round, got, want)
		case err == nil:
			merged++
		default:
			refused++
		}
	}
	if merged < 20 || refused < 20 {
		t.Errorf("%d merges and %d conflicts show little", merged, refused)
	}
}
