package branch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOldLayerKeepsLaterChanges checks that a layer from before an apply overwrites nothing that the workspace got
// since then. An apply merges changes of the workspace, so the version in such a layer lacks them. The next apply must
// merge again, or refuse.
func TestOldLayerKeepsLaterChanges(t *testing.T) {
	ways := map[string]struct {
		before func(t *testing.T, s *Store, b *Branch)
		after  func(t *testing.T, s *Store, b *Branch)
	}{
		"restore": {
			func(t *testing.T, s *Store, b *Branch) {
				_, err := s.Checkpoint(b, "", CheckpointRules{})
				mustBranch(t, err)
			},
			func(t *testing.T, s *Store, b *Branch) {
				_, err := s.Restore(b, 1, CheckpointRules{})
				mustBranch(t, err)
			},
		},
		"undo": {
			func(t *testing.T, s *Store, b *Branch) {
				mustBranch(t, s.Before(b, "s", "call", "", CheckpointRules{}))
			},
			func(t *testing.T, s *Store, b *Branch) {
				_, err := s.Undo(b, 1, CheckpointRules{})
				mustBranch(t, err)
			},
		},
	}
	for name, way := range ways {
		for _, how := range []Backend{{}, {Copy: true}} {
			for _, sel := range []Selection{{}, {Theirs: []string{"shared"}}} {
				t.Run(fmt.Sprintf("%s, copy %t, theirs %q", name, how.Copy, sel.Theirs), func(t *testing.T) {
					s, b := ofLines(t, how)
					edit(t, b.saved(), "two", "of the branch")
					mustBranch(t, errors.Join(b.work.Gather(), b.layer().Record([]string{"shared"})))
					way.before(t, s, b)
					edit(t, b.Base, "eight", "of the workspace")
					_, err := s.Apply(b, sel)
					mustBranch(t, err)
					mustBranch(t, errors.Join(b.work.Gather(), b.layer().Record([]string{"shared"}))) // as the next session does
					way.after(t, s, b)
					if err := keepsLine(t, s, b, "of the workspace"); err != nil {
						t.Errorf("the old layer cannot be merged: %v", err)
					}
				})
			}
		}
	}
}

// TestOldPreviewKeepsLaterChanges accepts a preview of a branch after an apply of this branch.
func TestOldPreviewKeepsLaterChanges(t *testing.T) {
	for _, how := range []Backend{{}, {Copy: true}} {
		t.Run(fmt.Sprintf("copy %t", how.Copy), func(t *testing.T) {
			s, b := ofLines(t, how)
			p, err := s.Preview("", b.Base, PreviewPrefix+"1", b, false, how)
			mustBranch(t, err)
			edit(t, p.saved(), "two", "of the preview")
			edit(t, b.Base, "eight", "of the workspace")
			files(t, b.saved(), map[string]string{"other": "of the branch"})
			_, err = s.Apply(b, Selection{})
			mustBranch(t, err)
			if _, err = s.Apply(p, Selection{Allowed: true}); err != nil {
				t.Logf("the preview is refused: %v", err)
			}
			b, err = s.Find("", b.Base, b.Name)
			mustBranch(t, err)
			_ = keepsLine(t, s, b, "of the workspace") // a conflict is right, too
		})
	}
}

// ofLines makes a workspace with the file "shared" of ten lines, and a branch of it.
func ofLines(t *testing.T, how Backend) (*Store, *Branch) {
	t.Helper()
	dir := t.TempDir()
	s, base := &Store{Dir: filepath.Join(dir, "branches")}, filepath.Join(dir, "ws")
	files(t, base, map[string]string{"shared": "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"})
	b, err := s.Make("", base, "b", how)
	mustBranch(t, err)
	return s, b
}

// edit adds a text to a line of the file "shared". If the tree is a layer, it begins with the version of the workspace.
func edit(t *testing.T, tree, line, add string) {
	t.Helper()
	path := filepath.Join(tree, "shared")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(tree))), "ws", "shared"))
	}
	mustBranch(t, err)
	fresh := strings.Replace(string(text), line+"\n", line+" "+add+"\n", 1)
	mustBranch(t, errors.Join(os.WriteFile(path+".new", []byte(fresh), 0o600), os.Rename(path+".new", path)))
}

// keepsLine applies the branch and checks that the workspace still has a text. It returns the conflict, if there is
// one.
func keepsLine(t *testing.T, s *Store, b *Branch, text string) error {
	t.Helper()
	_, err := s.Apply(b, Selection{})
	now, readErr := os.ReadFile(filepath.Join(b.Base, "shared"))
	mustBranch(t, readErr)
	if !strings.Contains(string(now), text) {
		t.Errorf("the apply returned %v, and the workspace lost %q:\n%s", err, text, now)
	}
	if conflict := (*ConflictError)(nil); err != nil && !errors.As(err, &conflict) {
		t.Error(err)
	}
	return err
}

// TestRevertRemembersTheClock checks that the layer of a revert counts as older than a change of the clock, as before
// its apply.
func TestRevertRemembersTheClock(t *testing.T) {
	s, b := ofLines(t, Backend{})
	edit(t, b.saved(), "two", "of the branch")
	b.SetBack = true
	mustBranch(t, b.save())
	_, err := s.Apply(b, Selection{Ours: []string{"."}})
	mustBranch(t, err)
	if b.clockSetBack() {
		t.Error("a branch without changes still has the mark")
	}
	_, err = s.Revert(b)
	mustBranch(t, err)
	if !b.clockSetBack() {
		t.Error("the mark is lost")
	}
}
