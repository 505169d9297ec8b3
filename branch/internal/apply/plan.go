// Package apply makes the changes of a branch in its base, and takes them back.
//
// [NewPlan] selects the changes, and finds the conflicts that nobody has decided. [Execution.Run] makes the steps of a
// plan, which a journal lists; [Execution.Undo] takes them back.
package apply

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitstate"
	"toolhost.dev/branch/internal/journal"
)

// Choice selects the changes to apply. The paths include all paths below them.
type Choice struct {
	// Paths limits the apply. An empty list means all changes.
	Paths []string
	// Ours and Theirs list paths with conflicts. At the paths of Ours, the content of the branch is used. At the paths
	// in Theirs, the content of the base is kept.
	Ours, Theirs []string
}

// Branch describes the branch that is applied.
type Branch struct{ Base, Layer string }

// Plan is the result of a choice.
type Plan struct {
	// Steps makes Changes in the base, and takes GivenUp from the layer. Left stays in the layer, and so does more if
	// Partial is true.
	Steps                  []journal.Step
	Changes, GivenUp, Left []change.Change
	Partial                bool
	// Conflicts lists the selected changes whose conflicts are not decided by the choice. Unchanged is a path of the
	// choice that the branch does not change, and Contrary is a path for which the choice keeps both sides. If one of
	// these fields is set, the plan must not be carried out.
	Conflicts           []change.Change
	Unchanged, Contrary string
	// Notes are messages for people.
	Notes []string
}

// selecting is the state of [NewPlan].
type selecting struct {
	Choice
	layer string
	all   *change.Survey
	used  map[string]bool // paths of the choice that match a change
	out   *Plan
}

// NewPlan returns the steps for the selected changes of a branch.
func NewPlan(sel Choice, b Branch, all *change.Survey) (*Plan, error) {
	n := len(all.Changes)
	out := &Plan{Steps: make([]journal.Step, 0, n), Changes: make([]change.Change, 0, n)}
	p := &selecting{Choice: sel, layer: b.Layer, all: all, used: make(map[string]bool), out: out}
	for i := range all.Changes {
		if err := p.add(all.Changes[i]); err != nil {
			return nil, err
		}
		if out.Contrary != "" {
			return out, nil
		}
	}
	for _, path := range slices.Concat(sel.Paths, sel.Ours, sel.Theirs) {
		if !p.used[filepath.Clean(path)] {
			out.Unchanged = path
			return out, nil
		}
	}
	for _, g := range all.Repos {
		if p.applies(g.Dir) {
			out.Notes = append(out.Notes, g.Notes...)
		}
	}
	for i := range out.Steps {
		s := &out.Steps[i]
		if !utf8.ValidString(s.Path) {
			s.Exact = []byte(s.Path)
		}
		if s.Op == change.OpMetadata {
			s.Attributes = s.Change.Attributes
			s.OldAttributes = filetree.Attributes(filepath.Join(b.Base, s.Path))
		}
	}
	slices.SortStableFunc(out.Steps, func(a, b journal.Step) int {
		if order(&a) == closing && order(&b) == closing {
			return strings.Compare(b.Path, a.Path)
		}
		return order(&a) - order(&b)
	})
	return out, nil
}

// order returns the position of a step in an apply. Directories that become writable come first, and directories that
// become read-only or closed come last, the deepest first. Git's objects come before the files that refer to them. Thus
// git works at each moment of the apply, even if the apply is killed.
func order(s *journal.Step) int {
	switch {
	case s.Op != change.OpMetadata && strings.Contains("/"+s.Path+"/", "/.git/objects/"):
		return 1
	case s.Op != change.OpMetadata:
		return 2
	case s.Mode&0o300 == 0o300:
		return 0
	}
	return closing
}

// closing is the position of directories that become read-only or closed.
const closing = 3

// covers reports whether a path is in a list of paths or below a path of the list.
func (p *selecting) covers(paths []string, path string) bool {
	for _, at := range paths {
		if at = filepath.Clean(at); at == "." || at == path || strings.HasPrefix(path, at+"/") {
			p.used[at] = true
			return true
		}
	}
	return false
}

func (p *selecting) selects(path string) bool { return len(p.Paths) == 0 || p.covers(p.Paths, path) }

// applies reports whether the apply includes the commits of the branch in a directory of git.
func (p *selecting) applies(dir string) bool { return p.selects(dir) && !p.covers(p.Theirs, dir) }

// add adds a change to the steps, to the conflicts, or to the changes that stay in the layer.
func (p *selecting) add(c change.Change) error {
	ours, theirs := p.covers(p.Ours, c.Path), p.covers(p.Theirs, c.Path)
	if ours && theirs {
		p.out.Contrary = c.Path
		return nil
	}
	selected := p.selects(c.Path) || ours || theirs
	if g := p.repository(c.Path); g != nil {
		c.BothChanged = true
		if selected && !p.selects(g.Dir) && !p.covers(p.Theirs, g.Dir) {
			return fmt.Errorf("%[1]s can only be applied as a whole, because the workspace also changed it. Select %[1]s instead of %[2]s", g.Dir, c.Path)
		}
		ours = false // the rules of [change.Repository] decide
	}
	committed := c.Repository != "" && p.applies(c.Repository) && !ours && !theirs
	if !committed {
		c.Waits, c.Commit, c.Merge = "", "", c.Merge || c.Repository != "" && c.Content != nil
	}
	switch {
	case c.Never != "", !selected, committed && c.Waits != "":
		p.out.Partial = true
		if !c.Dropped {
			p.out.Left = append(p.out.Left, c)
		}
		return nil
	case committed:
		p.drop(c)
		return nil
	case c.Conflict != "" && !ours && !theirs:
		p.out.Conflicts = append(p.out.Conflicts, c)
		return nil
	case c.Dropped && !ours:
		p.drop(c)
		return nil
	case theirs && c.Inode == 0:
		return nil // do nothing, because the layer contains nothing at this path
	}
	if ours {
		c.Conflict = "" // a person has decided the conflict
	}
	s := journal.Step{Change: c, Drop: theirs, New: c.Inode, Old: c.Before, Opaque: c.Hides, Contested: c.BothChanged}
	if gitstate.IsIndex(c.Path) && !theirs {
		s.Index = gitstate.IndexSum(filepath.Join(p.layer, c.Path))
	}
	if c.Content != nil && !ours && !theirs {
		s.Made, s.New, s.Mine = true, 0, c.Inode
	}
	p.out.Steps = append(p.out.Steps, s)
	if theirs {
		p.out.GivenUp = append(p.out.GivenUp, c)
	} else {
		p.out.Changes = append(p.out.Changes, c)
	}
	return nil
}

// drop adds a step that removes a path from the layer.
func (p *selecting) drop(c change.Change) {
	p.out.Steps = append(p.out.Steps, journal.Step{
		Change: c, Drop: true, New: c.Inode, Old: c.Before, Opaque: c.Hides, Contested: true,
	})
}

// repository returns the directory of git that contains a path, if both the branch and the workspace changed the
// directory. Otherwise it returns nil.
func (p *selecting) repository(path string) *change.Repository {
	for _, g := range p.all.Repos {
		if strings.HasPrefix(path, g.Dir+"/") {
			return g
		}
	}
	return nil
}
