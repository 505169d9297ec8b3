package branch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
)

// PreviewPrefix begins the names of branches for previews. Other branches cannot have such names.
const PreviewPrefix = "preview-"

// IsPreview reports whether the branch belongs to a preview.
func (b *Branch) IsPreview() bool { return strings.HasPrefix(b.Name, PreviewPrefix) }

// Preview makes a branch for the preview of one call. A preview of the call in another branch begins as a copy of that
// branch's layer. A nil branch means the workspace. Nothing may change the other branch meanwhile.
func (s *Store) Preview(owner, base, name string, of *Branch) (*Branch, error) {
	if of == nil {
		return s.Make(owner, base, name)
	}
	state, err := of.state()
	if err != nil {
		return nil, err
	}
	p, err := s.Make(owner, base, name)
	if err != nil {
		return nil, err
	}
	p.Of, p.OfState, p.Since, p.Renewed = of.Name, state, of.Since, of.Renewed
	err = removeAll(p.Layer())
	if err == nil {
		err = copyTree(of.Layer(), p.Layer())
	}
	if err = errors.Join(err, p.save()); err != nil {
		return nil, errors.Join(fmt.Errorf("the preview cannot begin with the changes of the branch %s: %w", of.Name, err), s.Discard(p))
	}
	return p, nil
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

// ChangedError means that a preview, or the branch that it shows, changed since a person was shown it.
type ChangedError struct{ Name, what string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("nothing was applied, because %s since the preview %s was shown. Run the command again, and drop this preview: toolhost branch discard %[2]s", e.what, e.Name)
}

// Seal records that a person is shown the changes of the preview. From then on, only these changes can be applied. The
// branch must not be mounted.
func (s *Store) Seal(b *Branch) error {
	lock, err := waitLock(b)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	return b.seal()
}

func (b *Branch) seal() (err error) {
	if b.Shown, err = b.state(); err != nil {
		return fmt.Errorf("the changes of the preview %s cannot be read: %w", b.Name, err)
	}
	return b.save()
}

// asShown returns an error if the layer is not what a person was shown.
func (b *Branch) asShown() error {
	if b.Shown == "" {
		return nil
	}
	now, err := b.state()
	if err == nil && now != b.Shown {
		err = &ChangedError{Name: b.Name, what: "its changes are other ones"}
	}
	return err
}

// adopt makes the layer of a preview the layer of the branch that it is about, in one step.
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
	now, err := of.state()
	if err == nil && now != p.OfState {
		err = &ChangedError{Name: p.Name, what: "the branch " + of.Name + " changed"}
	}
	if err != nil {
		return nil, err
	}
	changes, err := p.Changes()
	if err != nil {
		return nil, err
	}
	// The layers change places. A process that is killed after it leaves a preview that is not as shown, so it can only be
	// discarded.
	if err := exchangePaths(p.Layer(), of.Layer()); err != nil {
		return nil, fmt.Errorf("nothing was applied: %w", err)
	}
	return &Outcome{Changes: changes, Into: of.Name}, durable.SyncDir(of.dir)
}

// adoptWhole is adopt for an apply. Parts of a preview of a branch cannot be applied.
func (s *Store) adoptWhole(p *Branch, sel Selection) (*Outcome, error) {
	if len(sel.Paths)+len(sel.Ours)+len(sel.Theirs) > 0 {
		return nil, fmt.Errorf("the preview %s shows changes of the branch %s, so it is applied as a whole: toolhost branch apply %[1]s", p.Name, p.Of)
	}
	out, err := s.adopt(p)
	if err == nil {
		err = s.drop(p)
	}
	return out, err
}

// state returns a text that identifies the content of the layer. It changes whenever a file in the layer changes, because
// programs cannot set the ctime of a file. The times of directories do not count: the kernel changes them when it only
// reads.
func (b *Branch) state() (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(b.Layer(), func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err = errors.Join(err, unix.Lstat(path, &st)); err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %o %d %d", strings.TrimPrefix(path, b.Layer()), st.Mode, st.Uid, st.Gid)
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			fmt.Fprintf(sum, " %t\n", isOpaque(path))
		} else {
			fmt.Fprintf(sum, " %d %d %d\n", st.Ino, st.Size, st.Ctim.Nano())
		}
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
