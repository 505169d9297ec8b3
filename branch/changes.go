package branch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitstate"
)

// layer describes the layer of the branch. For a copy, the description is valid only while the caller uses the mirror.
func (b *Branch) layer() *change.Layer {
	l := &change.Layer{Name: b.Name, Base: b.Base, Upper: b.Layer(), State: b.dir, Since: b.Since, Renewed: b.Renewed,
		Exact: b.IsPreview()}
	if b.work != nil {
		l.Copy = b.work
	}
	l.Blind = b.clockSetBack()
	return l
}

// Changes lists everything that the layer changes, sorted by path. A new directory is a single change. The duration
// depends on the size of the layer and not on the size of the base.
func (b *Branch) Changes() ([]change.Change, error) {
	all, err := b.survey()
	if err != nil {
		return nil, err
	}
	all.Close()
	return slices.DeleteFunc(all.Changes, func(c change.Change) bool { return c.Dropped }), nil
}

// ErrNotAsShown means that an apply would not do what a person agreed to.
var ErrNotAsShown = errors.New("the branch, or what it changes in the workspace, changed since a person was shown it")

// Review returns a text that identifies the effect of an apply of the whole branch. It depends on the content of the
// layer, and on the versions in the workspace that the apply would replace or merge.
func (b *Branch) Review() (string, error) {
	all, err := b.survey()
	if err != nil {
		return "", err
	}
	defer all.Close()
	return b.review(all)
}

func (b *Branch) review(all *change.Survey) (string, error) {
	state, err := b.State()
	sum := sha256.New()
	_, _ = io.WriteString(sum, state)
	for i := range all.Changes {
		c := &all.Changes[i]
		if c.Dropped || gitstate.IsIndex(c.Path) {
			continue // ignore it, because git can rewrite its index when it only reads
		}
		fmt.Fprintf(sum, "%q %s %+v %q %t", c.Path, c.Op, c.Before, c.Conflict, c.Merge)
		if c.Content != nil {
			fmt.Fprintf(sum, " %q", *c.Content)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), err
}

// survey compares the layer with its base or with the branch below it. The caller must close the result.
func (b *Branch) survey() (*change.Survey, error) {
	if err := errors.Join(b.check(), b.work.Gather()); err != nil {
		return nil, err
	}
	if b.Of == "" {
		return b.layer().Survey()
	}
	of, err := b.parent()
	if err == nil {
		err = of.work.Gather()
	}
	if err != nil {
		return nil, err
	}
	changes, err := b.changesTo(of)
	return &change.Survey{Changes: changes}, err
}

// changesTo lists what a preview changes in the branch to which it belongs.
func (b *Branch) changesTo(of *Branch) ([]change.Change, error) {
	return change.Compare(of.ownView(), b.ownView())
}

// Diff writes changes of the branch as a unified diff. For a content that is not text, it writes one line that begins
// with "#". It also writes such a line for each deleted or replaced path, and for at most 1000 paths in a directory
// that the branch creates, replaces or deletes.
func (b *Branch) Diff(w io.Writer, changes []change.Change) error {
	before, err := b.baseView()
	if err != nil {
		return err
	}
	return change.Diff(w, before, b.ownView(), changes)
}

// ShortDiff returns changes as a diff of about limit bytes. Deleted and replaced paths come first and are always
// listed. If other changes exceed the limit, only their number is shown.
func (b *Branch) ShortDiff(changes []change.Change, limit int) (string, error) {
	before, err := b.baseView()
	if err != nil {
		return "", err
	}
	return change.ShortDiff(before, b.ownView(), changes, limit), nil
}

// Below returns the path of a change. If the change creates, replaces or deletes a directory, Below also returns all
// paths in this directory. All paths are relative to the workspace.
func (b *Branch) Below(c *change.Change) []string {
	out := []string{c.Path}
	for _, tree := range []struct {
		top, kind string
		need      uint32
	}{{b.Layer(), c.Is, 0o500}, {b.Base, c.Was, 0}} {
		if tree.kind != "directory" || c.Op == change.OpMetadata {
			continue
		}
		// Ignore the error: a directory of the base that cannot be read adds no paths.
		_ = filetree.WalkOwn(filepath.Join(tree.top, c.Path), tree.need,
			func(_, rel string, _ *unix.Stat_t, _ error) error {
				if rel != "." {
					out = append(out, filepath.Join(c.Path, rel))
				}
				return nil
			})
	}
	return out
}

// baseView returns the tree that the branch changes: the workspace or another branch.
func (b *Branch) baseView() (change.View, error) {
	if b.Of == "" {
		return change.View{Base: b.Base}, nil
	}
	of, err := b.parent()
	if err != nil {
		return change.View{}, err
	}
	return of.ownView(), nil
}

func (b *Branch) ownView() change.View { return change.View{Base: b.Base, Upper: b.Layer()} }

// Info describes a branch for people and programs.
type Info struct {
	// ID identifies the branch among all branches of the state directory.
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Base     string    `json:"base"`
	Owner    string    `json:"owner,omitempty"`
	Created  time.Time `json:"created"`
	Sessions []string  `json:"sessions,omitempty"`
	// Files counts the changed paths, and Bytes is the size of the layer on disk.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Conflicts counts the changes that conflict with changes of the workspace.
	Conflicts int `json:"conflicts"`
	// Applied counts the applies that can be reverted.
	Applied int `json:"applied,omitempty"`
	// Held and Unasked have the same meaning as in [Branch].
	Held    bool `json:"held,omitempty"`
	Unasked bool `json:"unasked,omitempty"`
	// Problem is the reason why the branch cannot be used now. It is the text of Err.
	Problem string `json:"problem,omitempty"`
	Err     error  `json:"-"`
}

// Info reads the description of the branch.
func (b *Branch) Info() Info {
	info := Info{ID: b.ID(), Name: b.Name, Base: b.Base, Owner: b.Owner, Created: b.Created, Sessions: b.Sessions,
		Applied: b.Applied, Held: b.Held, Unasked: b.Unasked, Bytes: b.Bytes()}
	changes, err := b.Changes()
	if err != nil {
		info.Problem, info.Err = err.Error(), err
	}
	for _, c := range changes {
		info.Files += 1 + c.Entries
		if c.Conflict != "" {
			info.Conflicts++
		}
	}
	return info
}
