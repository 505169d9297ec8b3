package branch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
)

// PreviewPrefix is the prefix of the names of branches for previews. Other branches cannot have this prefix.
const PreviewPrefix = "preview-"

// AtomicPrefix is the prefix of the names of branches for atomic batches. The host applies such a branch without
// another question, so the calls in it ask as they do in the workspace.
const AtomicPrefix = "atomic-"

// IsPreview reports whether the branch belongs to a preview.
func (b *Branch) IsPreview() bool { return strings.HasPrefix(b.Name, PreviewPrefix) }

// Preview makes a branch for the preview of one call. A preview of the call in another branch begins as a copy of that
// branch's layer. A nil argument "of" means the workspace. The branch "of" must not be changed while Preview runs. If
// held is true, the preview belongs to a permission request; see [Branch.Held].
//
// Other processes can find the preview only once it has its marks. Otherwise it could be applied as a branch that
// nobody must confirm.
func (s *Store) Preview(owner, base, name string, of *Branch, held bool, how Backend) (*Branch, error) {
	p := &Branch{Name: name, Base: base, Owner: owner, Held: held}
	if of == nil {
		return p, s.create(p, how, func() error { return nil })
	}
	how.Copy = of.Copy != nil
	if err := of.intact(); err != nil {
		return nil, err
	}
	state, err := of.State()
	if err != nil {
		return nil, err
	}
	return p, s.create(p, how, func() error {
		p.Of, p.OfState, p.derivation = of.Name, state, of.derivation
		err := filetree.RemoveAll(p.Layer())
		if err == nil {
			err = filetree.Copy(of.Layer(), p.Layer())
		}
		if err == nil {
			err = p.work.Inherit(of.work)
		}
		killpoint.Pass()
		if err = errors.Join(err, p.save()); err != nil {
			return fmt.Errorf("the preview cannot begin with the changes of the branch %s: %w", of.Name, err)
		}
		return nil
	})
}

// ParentID is the ID of the branch whose changes a preview shows, or "".
func (b *Branch) ParentID() string {
	if b.Of == "" {
		return ""
	}
	return filepath.Base((&Store{Dir: filepath.Dir(b.dir)}).path(b.Owner, b.Base, b.Of))
}

// parent returns the branch whose changes a preview shows.
func (b *Branch) parent() (*Branch, error) {
	return (&Store{Dir: filepath.Dir(b.dir)}).Find(b.Owner, b.Base, b.Of)
}

// ChangedError means that a preview, or the branch to which it belongs, has changed since a person was shown the
// preview.
type ChangedError struct{ Name, what string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("nothing was applied, because %s since the preview %s was shown. Run the command again, and drop this preview", e.what, e.Name)
}

// Seal records that a person is shown the changes of the preview. From then on, only these changes can be applied. The
// branch must not be mounted.
func (s *Store) Seal(b *Branch) error {
	lock, err := s.claim(b, true)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	return b.seal()
}

func (b *Branch) seal() (err error) {
	if b.Shown, err = b.State(); err != nil {
		return fmt.Errorf("the changes of the preview %s cannot be read: %w", b.Name, err)
	}
	return b.save()
}

// asShown returns an error if the layer differs from the layer that a person was shown.
func (b *Branch) asShown() error {
	if b.Shown == "" {
		return nil
	}
	now, err := b.State()
	if err == nil && now != b.Shown {
		err = &ChangedError{Name: b.Name, what: "the content of the preview changed"}
	}
	return err
}

// adopt replaces the layer of a branch by the layer of the branch's preview, in one step.
func (s *Store) adopt(p *Branch) (*Outcome, error) {
	of, err := p.parent()
	if err != nil {
		return nil, err
	}
	lock, err := waitLock(of)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	unlock, err := of.work.Lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := of.recover(s.Guard); err != nil { // the caller holds the lock of the base
		return nil, err
	}
	if err := of.intact(); err != nil {
		return nil, err
	}
	now, err := of.State()
	if err == nil && now != p.OfState {
		err = &ChangedError{Name: p.Name, what: "the branch " + of.Name + " changed"}
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.check(), p.work.Gather()); err != nil {
		return nil, err
	}
	changes, err := p.changesTo(of)
	if err != nil {
		return nil, err
	}
	of.Unasked = of.Unasked || p.Unasked
	of.derivation = p.derivation // an apply can have renewed that of an empty layer
	if err := of.save(); err != nil {
		return nil, fmt.Errorf("nothing was applied: %w", err)
	}
	// Exchange the layers. If this process is killed afterwards, the preview remains with the branch's old layer. This
	// layer was not shown to the person, so the preview can only be discarded.
	from, to := p.Layer(), of.Layer()
	if p.Copy != nil {
		from, to = p.work.Dir(), of.work.Dir()
	}
	if err := filetree.ExchangePaths(from, to); err != nil {
		return nil, fmt.Errorf("nothing was applied: %w", err)
	}
	return &Outcome{Changes: changes, Into: of.Name}, durable.SyncDir(of.dir)
}

// WholeError means that a selection contains only some changes of the preview of another branch.
type WholeError struct{ Name, Of string }

func (e *WholeError) Error() string {
	return fmt.Sprintf("the preview %s shows changes of the branch %s, so it is applied as a whole", e.Name, e.Of)
}

// adoptWhole is like adopt, but returns a [WholeError] if the apply selects only some of the changes. A preview of a
// branch can only be applied as a whole.
func (s *Store) adoptWhole(p *Branch, sel Selection) (*Outcome, error) {
	if len(sel.Paths)+len(sel.Ours)+len(sel.Theirs) > 0 {
		return nil, &WholeError{Name: p.Name, Of: p.Of}
	}
	out, err := s.adopt(p)
	if err == nil {
		err = s.drop(p)
	}
	return out, err
}

// State returns a text that identifies the content of the layer. It changes whenever a file in the layer changes,
// because programs cannot set the ctime of a file. The times of directories are ignored, because the kernel can change
// them when it only reads.
func (b *Branch) State() (string, error) {
	if err := b.work.Gather(); err != nil {
		return "", err
	}
	sum := sha256.New()
	err := filetree.WalkOwn(b.Layer(), 0o500, func(path, rel string, st *unix.Stat_t, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %o %d %d", rel, st.Mode, st.Uid, st.Gid)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			fmt.Fprintf(sum, " %d %d %d\n", st.Ino, st.Size, st.Ctim.Nano())
			return nil
		}
		opaque, err := filetree.IsOpaque(path)
		fmt.Fprintf(sum, " %t\n", opaque)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// HeldError means that a preview waits for the answer to the permission request that shows it.
type HeldError struct{ Name string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the preview %s belongs to a permission request that is not answered, and only the answer can apply it. Answer the request. If its call has ended, run the command again, and drop the preview", e.Name)
}

// UnaskedError means that nobody has confirmed the changes of a branch; see [Branch.Unasked].
type UnaskedError struct{ Name string }

func (e *UnaskedError) Error() string {
	return fmt.Sprintf("a command ran in the branch %s that needs a confirmation in the workspace, and nobody has confirmed the changes", e.Name)
}

// withheld returns an error if a branch must not be applied without an answer. The preview of another branch changes
// only that branch, which is then unasked.
func (b *Branch) withheld(allowed bool) error {
	switch {
	case b.Held:
		return &HeldError{Name: b.Name}
	case b.Unasked && !allowed && b.Of == "":
		return &UnaskedError{Name: b.Name}
	}
	return nil
}

// Answered records that a person allowed the call whose permission request shows a preview. The branch must not be
// mounted.
func (s *Store) Answered(b *Branch) error {
	lock, err := s.claim(b, true)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	b.Held = false
	return b.save()
}

// Unasked records that a call runs in a mounted branch without the answer that it needs in the workspace; see
// [Branch.Unasked].
func (m *Mounts) Unasked(mount *Mount) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mount.Branch.Unasked {
		return nil
	}
	if m.by[mount.Branch.ID()] != mount { // the record now belongs to whoever locks the branch
		return ErrNotMounted
	}
	mount.Branch.Unasked = true
	if err := mount.Branch.save(); err != nil {
		mount.Branch.Unasked = false
		return fmt.Errorf("the branch %s cannot record that this call needs a confirmation: %w", mount.Branch.Name, err)
	}
	return nil
}
