//go:build linux

package repository

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAlternatesInTree checks that tools cannot make a later sandbox show another repository through alternates that
// lead to a place in the tree where the guard finds no repository.
func TestAlternatesInTree(t *testing.T) {
	for name, tc := range map[string]struct {
		at    string // the repository that leads outside
		limit int
	}{
		"among objects":   {"a/.git/objects/aa", 0},
		"above the limit": {"many/more/directories/x", 8},
		"repository":      {"x", 0}, // its own alternates are taken
	} {
		t.Run(name, func(t *testing.T) {
			f, secret := newFixture(t), newFixture(t)
			f.limit = tc.limit
			f.git(t, "init", "-q", "--template=", "a")
			secret.git(t, "init", "-q", "--template=", "s")
			g, objects := f.guard(), filepath.Join(secret.dir, "s/.git/objects")
			out := f.call(t, g, false, false, func() {
				x := filepath.Join(f.dir, tc.at)
				must(t, os.MkdirAll(filepath.Join(x, "objects/info"), 0o700))
				must(t, os.MkdirAll(filepath.Join(x, "refs"), 0o700))
				must(t, os.WriteFile(filepath.Join(x, "HEAD"), []byte("ref: refs/heads/x\n"), 0o600))
				must(t, os.WriteFile(filepath.Join(x, "objects/info/alternates"), []byte(objects+"\n"), 0o600))
				must(t, os.MkdirAll(filepath.Join(f.dir, "a/.git/objects/info"), 0o700))
				must(t, os.WriteFile(filepath.Join(f.dir, "a/.git/objects/info/alternates"), []byte(x+"/objects\n"), 0o600))
			})
			must(t, g.Close())
			shown := FindOuter(filepath.Join(f.dir, "a"), f.guard().Adopted).Shown
			if slices.Contains(shown, objects) || !strings.Contains(strings.Join(out, "\n"), "alternates was moved") {
				t.Errorf("shown are %q, after %q", shown, out)
			}
		})
	}
}

// TestFindOuter checks what is not shown.
func TestFindOuter(t *testing.T) {
	f := newFixture(t)
	f.git(t, "init", "-q", ".")
	f.git(t, "init", "-q", "lender")
	must(t, os.MkdirAll(filepath.Join(f.dir, "ws/.git"), 0o700))
	must(t, os.Remove(filepath.Join(f.dir, "ws/.git")))
	t.Setenv("HOME", "/nonexistent")
	if out := FindOuter(filepath.Join(f.dir, "ws"), nil); len(out.Shown) > 0 {
		t.Errorf("without a home directory: %+v", out)
	}
	t.Setenv("HOME", f.state)
	if out := FindOuter(filepath.Join(f.dir, "ws"), nil); !slices.Equal(out.Shown, []string{filepath.Join(f.dir, ".git")}) {
		t.Errorf("a repository above: %+v", out)
	}
	for to, named := range map[string]bool{f.state: false, filepath.Join(f.dir, ".git"): true} { // a hint names only git directories
		must(t, os.WriteFile(filepath.Join(f.dir, "ws/.git"), []byte("gitdir: "+to+"\n"), 0o600))
		if out := FindOuter(filepath.Join(f.dir, "ws"), nil); named != (out.Unshown != "") || len(out.Shown) > 0 {
			t.Errorf("%s: %+v", to, out)
		}
	}
	// The text that was read counts, not the text that the file has during the comparison.
	list := filepath.Join(f.dir, ".git/objects/info/alternates")
	must(t, os.MkdirAll(filepath.Dir(list), 0o700))
	must(t, os.WriteFile(list, []byte(filepath.Join(f.dir, "lender/.git/objects")+"\n"), 0o600))
	var texts []string
	FindOuter(f.dir, func(_, text string) bool { texts = append(texts, text); return false })
	if len(texts) != 1 || !strings.Contains(texts[0], "lender") {
		t.Errorf("%q", texts)
	}
}
