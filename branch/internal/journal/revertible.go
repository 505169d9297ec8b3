package journal

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitstate"
)

// Revertible returns a description of each path that has changed since the apply.
func (x *Exchange) Revertible() (problems []string) {
	for i := range x.j.Steps {
		s := &x.j.Steps[i]
		if s.addsObjects() {
			continue
		}
		if !s.Drop && s.Op != change.OpMetadata {
			if why := x.changedSince(s); why != "" {
				problems = append(problems, s.Path+": "+why)
			}
		}
		_, err := os.Lstat(filepath.Join(x.log.Layer, s.Path))
		switch {
		case s.Op == change.OpMetadata || filetree.IsMissing(err):
		case err != nil:
			problems = append(problems, s.Path+": "+err.Error())
		default:
			problems = append(problems, s.Path+": the branch has a new change of it")
		}
	}
	return problems
}

func (x *Exchange) changedSince(s *Step) string {
	st, err := x.base.Stat(s.Path)
	switch {
	case s.Gone && err == nil:
		return "it was created again"
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		if s.Op != change.OpDelete && !s.Gone {
			return "it was deleted"
		}
	case err != nil:
		return err.Error()
	case s.Op == change.OpDelete:
		return "it was created again"
	case s.Index != "" && gitstate.IndexSum(filepath.Join(x.base.Path, s.Path)) == s.Index:
		x.refreshed = x.refreshed || st.Ino != s.New
		s.New = st.Ino
	case st.Ino != s.New:
		return "it was replaced"
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		if at := change.Newest(filepath.Join(x.base.Path, s.Path), x.j.Done, true); at != "" {
			return "something in it changed"
		}
	case st.Ctim.Nano() >= x.j.Done:
		return "it was changed"
	}
	return ""
}

// Rewrite writes the journal again if Revertible noticed an index that git has rewritten without changing its entries.
func (x *Exchange) Rewrite() error {
	if !x.refreshed {
		return nil
	}
	return x.j.write()
}

// MarkGone records which applied versions no longer exist in the base.
func (x *Exchange) MarkGone() error {
	gone := false
	for i := range x.j.Steps {
		s := &x.j.Steps[i]
		if s.Drop || s.Op == change.OpMetadata || s.Op == change.OpDelete || x.inode(x.base, s.Path) != 0 {
			continue
		}
		s.Gone, gone = true, true
	}
	if err := x.certain(nil); err != nil || !gone {
		return err
	}
	return x.j.write()
}
