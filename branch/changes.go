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
	"toolhost.dev/branch/internal/overlay"
)

// layer describes the layer of the branch. For a copy, the description is valid only while the caller uses the mirror.
func (b *Branch) layer() *change.Layer {
	l := &change.Layer{Name: b.Name, Base: b.Base, Upper: b.Layer(), State: b.dir, Since: b.Since, Renewed: b.Renewed, Exact: b.IsPreview()}
	if b.Copy != nil {
		l.Copy = versions{b}
	}
	l.Blind = b.clockSetBack()
	return l
}

// derivation records when a layer last saw each path of the base. Later changes of the base can conflict with the
// layer.
type derivation struct {
	// Since is the time of the base's file system at which the branch began, in nanoseconds. A path of the base that
	// changed later can conflict with the layer. Renewed contains later times for single paths and everything below
	// them.
	Since   int64            `json:"since"`
	Renewed map[string]int64 `json:"renewed,omitempty"`
	// Clock is the state of the clock that measured Since. SetBack means that the clock was set back afterwards. Both
	// are empty for a copy, because a copy compares states and not times.
	Clock   *clock `json:"clock,omitempty"`
	SetBack bool   `json:"set_back,omitempty"`
}

// clock identifies a state of the clock of the machine. Offset is the result of [overlay.ClockOffset].
type clock struct {
	Boot   string `json:"boot"`
	Offset int64  `json:"offset"`
}

// maxBack is the tolerated step back of the clock, in nanoseconds. A leap second sets the clock back by one second.
const maxBack = 1.1e9

// clockSetBack reports whether the clock was set back since the branch began. Changes of the base then have times from
// before the branch, so that the times do not show them.
func (b *Branch) clockSetBack() bool {
	if b.Copy != nil {
		return false
	}
	if b.SetBack || time.Now().UnixNano()+maxBack < b.Since {
		return true
	}
	offset, known := overlay.ClockOffset()
	if !known || b.Clock == nil || b.Clock.Offset <= offset+maxBack {
		return false
	}
	boot, err := overlay.BootID()
	return err != nil || boot == b.Clock.Boot
}

// watchClock stores in b the state of the clock, and whether the clock was set back. The caller must save b.
func (b *Branch) watchClock() {
	if b.Copy != nil {
		return
	}
	b.SetBack = b.clockSetBack()
	offset, known := overlay.ClockOffset()
	boot, err := overlay.BootID()
	if known && err == nil && (b.Clock == nil || b.Clock.Boot != boot || b.Clock.Offset < offset) {
		b.Clock = &clock{Boot: boot, Offset: offset}
	}
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
	if err := errors.Join(b.check(), b.gather()); err != nil {
		return nil, err
	}
	if b.Of == "" {
		return b.layer().Survey()
	}
	of, err := b.parent()
	if err == nil {
		err = of.gather()
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
		_ = filetree.WalkOwn(filepath.Join(tree.top, c.Path), tree.need, func(_, rel string, _ *unix.Stat_t, _ error) error {
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
	// Problem is the reason why the branch cannot be used now.
	Problem string `json:"problem,omitempty"`
}

// Info reads the description of the branch.
func (b *Branch) Info() Info {
	info := Info{ID: b.ID(), Name: b.Name, Base: b.Base, Owner: b.Owner, Created: b.Created, Sessions: b.Sessions, Applied: b.Applied, Held: b.Held, Unasked: b.Unasked, Bytes: b.Bytes()}
	changes, err := b.Changes()
	if err != nil {
		info.Problem = err.Error()
	}
	for _, c := range changes {
		info.Files += 1 + c.Entries
		if c.Conflict != "" {
			info.Conflicts++
		}
	}
	return info
}
