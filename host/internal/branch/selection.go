package branch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// selecting is the state of [Selection.plan].
type selecting struct {
	*Selection
	b         *Branch
	all       *survey
	used      map[string]bool // the paths of the selection that a change has
	steps     []step
	out       *Outcome
	conflicts *ConflictError
}

// plan selects the steps. It returns a [ConflictError] if a selected change has a conflict that nobody decided.
func (sel *Selection) plan(b *Branch, all *survey) ([]step, *Outcome, error) {
	p := &selecting{Selection: sel, b: b, all: all, used: make(map[string]bool), out: &Outcome{Changes: []Change{}}, conflicts: &ConflictError{Name: b.Name}}
	for i := range all.changes {
		if err := p.add(all.changes[i]); err != nil {
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
	for _, g := range all.repos {
		if p.applies(g.dir) {
			p.out.Notes = append(p.out.Notes, g.notes...)
		}
	}
	for i := range p.steps {
		s := &p.steps[i]
		if !utf8.ValidString(s.Path) {
			s.Exact = []byte(s.Path)
		}
		if s.Op == OpMetadata {
			s.Attributes = attributesOf(filepath.Join(b.Layer(), s.Path))
			s.OldAttributes = attributesOf(filepath.Join(b.Base, s.Path))
		}
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return order(&a) - order(&b) })
	return p.steps, p.out, nil
}

// covers reports whether a path is one of a list, or below one.
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

// applies reports whether the commits of the branch in a directory of git are part of the apply.
func (p *selecting) applies(dir string) bool { return p.selects(dir) && !p.covers(p.Theirs, dir) }

// add adds a change to the steps, to the conflicts, or to what stays in the layer.
func (p *selecting) add(c Change) error {
	ours, theirs := p.covers(p.Ours, c.Path), p.covers(p.Theirs, c.Path)
	if ours && theirs {
		return fmt.Errorf("%s is both in --ours and in --theirs", c.Path)
	}
	selected := p.selects(c.Path) || ours || theirs
	if g := p.repository(c.Path); g != nil {
		c.contested = true
		if selected && !p.selects(g.dir) && !p.covers(p.Theirs, g.dir) {
			return fmt.Errorf("the workspace changed %s, too, so it can only be applied as a whole, and not %s alone. Select %[1]s", g.dir, c.Path)
		}
		ours = false // the rules for git decide
	}
	committed := c.repo != "" && p.applies(c.repo) && !ours && !theirs
	if !committed {
		c.Waits, c.Commit, c.Merge = "", "", c.Merge || c.repo != "" && c.made != nil
	}
	switch {
	case c.Never != "", !selected, committed && c.Waits != "":
		p.out.partial = true
		if !c.drop {
			p.out.Left = append(p.out.Left, c)
		}
		return nil
	case committed:
		p.drop(c)
		return nil
	case c.Conflict != "" && !ours && !theirs:
		p.conflicts.Conflicts = append(p.conflicts.Conflicts, c)
		return nil
	case c.drop && !ours:
		p.drop(c)
		return nil
	case theirs && c.inode == 0:
		return nil // the layer does not have it
	}
	s := step{Change: c, Drop: theirs, New: c.inode, Old: c.old, Opaque: c.opaque, Contested: c.contested}
	if isIndex(c.Path) && !theirs {
		s.Index = indexSum(filepath.Join(p.b.Layer(), c.Path))
	}
	if c.made != nil && !ours && !theirs {
		s.Made, s.New, s.Mine = true, 0, c.inode
	}
	p.steps, p.out.Changes = append(p.steps, s), append(p.out.Changes, c)
	return nil
}

// drop adds a step that removes something from the layer.
func (p *selecting) drop(c Change) {
	p.steps = append(p.steps, step{Change: c, Drop: true, New: c.inode, Old: c.old, Opaque: c.opaque, Contested: true})
}

// repository returns the directory of git with a path that both the branch and the workspace changed, or nil.
func (p *selecting) repository(path string) *gitState {
	for _, g := range p.all.repos {
		if strings.HasPrefix(path, g.dir+"/") {
			return g
		}
	}
	return nil
}
