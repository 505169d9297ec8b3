package checkpoint

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// A target describes the result of a restore.
type target struct {
	// entries lists the entries of the checkpoint that are restored.
	entries []Entry
	// stay lists the paths of the layer that stay unchanged with everything below them. The checkpoint left them out,
	// or a checkpoint of the current layer would leave them out. In the second case, the restore could not be undone.
	stay []string
	// lost lists the paths that were left out and no longer exist in the branch.
	lost []string
}

// target returns the result of restoring a checkpoint. The argument "now" lists the paths that a checkpoint of the
// current layer leaves out.
func (s *Set) target(c *Checkpoint, entries []Entry, now []string) (*target, error) {
	out := &target{}
	was := leftOut(entries)
	if c.Ignored > 0 && len(was) == 0 { // an older version made the checkpoint, and left out everything that git ignores
		t := s.newTaker(&Checkpoint{}, nil, Rules{SkipIgnored: true})
		t.dry, t.room = true, room{}
		all, err := t.take()
		if err != nil {
			return nil, err
		}
		now = leftOut(all)
	}
	all := slices.Concat(was, now)
	slices.Sort(all)
	for _, path := range slices.Compact(all) {
		var st unix.Stat_t
		switch err := unix.Lstat(filepath.Join(s.Layer, path), &st); {
		case out.stays(path):
		case err != nil && !filetree.IsMissing(err):
			return nil, err
		case err == nil && !filetree.IsWhiteout(&st):
			out.stay = append(out.stay, path)
		default:
			out.lost = append(out.lost, path)
		}
	}
	out.entries = out.restorable(entries)
	return out, nil
}

// restorable returns the entries that a restore can make.
func (t *target) restorable(entries []Entry) (out []Entry) {
	for i := range entries {
		e := &entries[i]
		if e.LeftOut || t.stays(e.Path) || e.Mode&unix.S_IFMT != unix.S_IFDIR && t.staysBelow(e.Path) {
			continue // a directory that contains such a path also stays
		}
		out = append(out, *e)
	}
	return out
}

// stays reports whether a path stays as it is.
func (t *target) stays(path string) bool {
	return slices.ContainsFunc(t.stay, func(at string) bool { return path == at || strings.HasPrefix(path, at+"/") })
}

// staysBelow reports whether something in a directory stays as it is.
func (t *target) staysBelow(dir string) bool {
	return slices.ContainsFunc(t.stay, func(at string) bool { return dir == "." || strings.HasPrefix(at, dir+"/") })
}

// compare compares the layer with a manifest, as a checkpoint does. It does not store anything.
func (s *Set) compare(last []Entry, rules Rules) (*taker, error) {
	if err := s.Copy.Gather(); err != nil {
		return nil, err
	}
	t := s.newTaker(&Checkpoint{}, last, rules)
	t.dry = true
	_, err := t.take()
	return t, err
}

// wanted returns the result that a restore would have.
func (s *Set) wanted(number int, rules Rules) (*target, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	entries, err := s.Manifest(number)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(c Checkpoint) bool { return c.Number == number })
	if i < 0 {
		return nil, fmt.Errorf("the branch %s has no checkpoint %d", s.Branch, number)
	}
	rules.Bytes = 0
	now, err := s.compare(nil, rules)
	if err != nil {
		return nil, err
	}
	return s.target(&all[i], entries, leftOut(now.entries))
}
