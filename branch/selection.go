package branch

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

// selecting is the state of [Selection.plan].
type selecting struct {
	*Selection
	b         *Branch
	all       *change.Survey
	used      map[string]bool // paths of the selection that match a change
	steps     []journal.Step
	out       *Outcome
	conflicts *ConflictError
}

// plan returns the steps for the selected changes. It returns a [ConflictError] if a selected change has a conflict and
// the selection does not decide the conflict.
func (sel *Selection) plan(b *Branch, all *change.Survey) ([]journal.Step, *Outcome, error) {
	n := len(all.Changes)
	p := &selecting{Selection: sel, b: b, all: all, used: make(map[string]bool), steps: make([]journal.Step, 0, n), out: &Outcome{Changes: make([]change.Change, 0, n)}, conflicts: &ConflictError{Name: b.Name}}
	for i := range all.Changes {
		if err := p.add(all.Changes[i]); err != nil {
			return nil, nil, err
		}
	}
	for _, path := range slices.Concat(sel.Paths, sel.Ours, sel.Theirs) {
		if !p.used[filepath.Clean(path)] {
			return nil, nil, fmt.Errorf("the branch %s does not change %s. See toolhost branch diff %[1]s; a new directory can only be applied as a whole", b.Name, path)
		}
	}
	if len(p.conflicts.Conflicts) > 0 {
		return nil, nil, p.conflicts
	}
	for _, g := range all.Repos {
		if p.applies(g.Dir) {
			p.out.Notes = append(p.out.Notes, g.Notes...)
		}
	}
	for i := range p.steps {
		s := &p.steps[i]
		if !utf8.ValidString(s.Path) {
			s.Exact = []byte(s.Path)
		}
		if s.Op == change.OpMetadata {
			s.Attributes = s.Change.Attributes
			s.OldAttributes = filetree.Attributes(filepath.Join(b.Base, s.Path))
		}
	}
	slices.SortStableFunc(p.steps, func(a, b journal.Step) int {
		if order(&a) == closing && order(&b) == closing {
			return strings.Compare(b.Path, a.Path)
		}
		return order(&a) - order(&b)
	})
	return p.steps, p.out, nil
}

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
		return fmt.Errorf("%s is both in --ours and in --theirs", c.Path)
	}
	selected := p.selects(c.Path) || ours || theirs
	if g := p.repository(c.Path); g != nil {
		c.BothChanged = true
		if selected && !p.selects(g.Dir) && !p.covers(p.Theirs, g.Dir) {
			return fmt.Errorf("the workspace changed %s, too, so it can only be applied as a whole, and not %s alone. Select %[1]s", g.Dir, c.Path)
		}
		ours = false // the rules of [change.Repository] decide
	}
	committed := c.Repository != "" && p.applies(c.Repository) && !ours && !theirs
	if !committed {
		c.Waits, c.Commit, c.Merge = "", "", c.Merge || c.Repository != "" && c.Content != nil
	}
	switch {
	case c.Never != "", !selected, committed && c.Waits != "":
		p.out.partial = true
		if !c.Dropped {
			p.out.Left = append(p.out.Left, c)
		}
		return nil
	case committed:
		p.drop(c)
		return nil
	case c.Conflict != "" && !ours && !theirs:
		p.conflicts.Conflicts = append(p.conflicts.Conflicts, c)
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
		s.Index = gitstate.IndexSum(filepath.Join(p.b.Layer(), c.Path))
	}
	if c.Content != nil && !ours && !theirs {
		s.Made, s.New, s.Mine = true, 0, c.Inode
	}
	p.steps = append(p.steps, s)
	if theirs {
		p.out.GivenUp = append(p.out.GivenUp, c)
	} else {
		p.out.Changes = append(p.out.Changes, c)
	}
	return nil
}

// drop adds a step that removes a path from the layer.
func (p *selecting) drop(c change.Change) {
	p.steps = append(p.steps, journal.Step{Change: c, Drop: true, New: c.Inode, Old: c.Before, Opaque: c.Hides, Contested: true})
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
