package branch

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch/checkpoint"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/overlay"
)

// dustbinDir is the prefix of the names of discarded branches. Each has a directory of its own, which nothing else
// removes meanwhile.
const dustbinDir = ".discarded"

// Store is the directory with the branches of a state directory.
type Store struct {
	Dir string
	// Guard is called when this process completes the apply of a killed process; see [Guard]. Nil means no guard.
	Guard Guard
}

// Guard is a function that is called before changes of a base. If it fails, nothing is changed. The returned function
// "after" is called after the changes. It reports whether it has itself changed the base.
type Guard func(base string) (after func() (changed bool), err error)

// NotFoundError means that a workspace has no branch with the given name.
type NotFoundError struct {
	Name, Base string
	known      []string
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("the workspace %s has no branch %q", e.Base, e.Name)
	if like := suggest.DidYouMean(e.Name, e.known); like != "" {
		text += "." + like
	}
	return text
}

// InUseError means that another process uses a branch.
type InUseError struct {
	Name string
	PID  int // 0 if unknown
}

func (e *InUseError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("the process %d", e.PID)
	}
	return fmt.Sprintf("the branch %s is in use by %s. End that process, or wait until it ends", e.Name, who)
}

func (s *Store) path(owner, base, name string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + base))
	return filepath.Join(s.Dir, name+"@"+hex.EncodeToString(sum[:6]))
}

// Find returns a branch of an owner's workspace. If it does not exist, the error is a [NotFoundError].
func (s *Store) Find(owner, base, name string) (*Branch, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	b, err := read(s.path(owner, base, name))
	if errors.Is(err, fs.ErrNotExist) {
		missing := &NotFoundError{Name: name, Base: base}
		all, _ := s.List() // ignore the error: the names are only a suggestion
		for _, o := range all {
			if o.Base == base && o.Owner == owner {
				missing.known = append(missing.known, o.Name)
			}
		}
		return nil, missing
	}
	return b, err
}

// List returns all branches, sorted by base and name. It skips directories that contain no complete branch.
func (s *Store) List() ([]*Branch, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the branches cannot be listed: %w", err)
	}
	var out []*Branch
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if b, err := read(filepath.Join(s.Dir, e.Name())); err == nil && e.IsDir() {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *Branch) int {
		return cmp.Or(strings.Compare(a.Base, b.Base), strings.Compare(a.Owner, b.Owner),
			strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// Make returns a branch of an owner's workspace. It creates a missing branch with the given backend.
func (s *Store) Make(owner, base, name string, how Backend) (*Branch, error) {
	b, err := s.Find(owner, base, name)
	if missing := (*NotFoundError)(nil); !errors.As(err, &missing) {
		return b, err
	}
	b = &Branch{Name: name, Base: base, Owner: owner}
	if err := s.create(b, how, func() error { return nil }); err != nil {
		if made, found := s.Find(owner, base, name); found == nil {
			return made, nil
		}
		return nil, err
	}
	return b, nil
}

// create creates a branch with the name, base and owner of b. The function inherit adds to the new branch before other
// processes can find it.
func (s *Store) create(b *Branch, how Backend, inherit func() error) error {
	var dir unix.Stat_t
	if err := unix.Stat(b.Base, &dir); err != nil {
		return fmt.Errorf("the workspace %s cannot be read: %w", b.Base, err)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("the directory of branches cannot be created: %w", err)
	}
	if err := s.suits(b.Base, &dir, how); err != nil {
		return err
	}
	// Make the branch in a temporary directory and rename it, because another process can create the same branch at the
	// same time.
	fresh, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return fmt.Errorf("the branch cannot be created: %w", err)
	}
	defer filetree.RemoveAll(fresh)                                                   //nolint:errcheck // it is gone after the rename below
	b.Device, b.Inode, b.Created, b.dir = uint64(dir.Dev), dir.Ino, time.Now(), fresh //nolint:unconvert // not all systems have 64 bits here
	if err := b.fill(how); err != nil {
		return fmt.Errorf("the branch cannot be created: %w", err)
	}
	if err := inherit(); err != nil {
		return err
	}
	at := s.path(b.Owner, b.Base, b.Name)
	err = os.Rename(fresh, at)
	if err != nil && unfinished(at) {
		err = errors.Join(s.dropUnfinished(at), os.Rename(fresh, at))
	}
	if err != nil {
		return fmt.Errorf("the branch cannot be created: %w", err)
	}
	b.dir = at
	b.work.Move(at)
	return nil
}

// dropUnfinished removes a branch if it is still unfinished.
func (s *Store) dropUnfinished(dir string) error {
	// Create the lock file, because it can be lost, too.
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_ = f.Close()
	held, err := lockDirectory(dir, filepath.Base(dir))
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // only a lock
	if !unfinished(dir) {
		return nil
	}
	return s.drop(&Branch{dir: dir, Name: filepath.Base(dir)})
}

// PlaceError means that a store cannot have branches of a workspace because of the place of its directory.
type PlaceError struct {
	// Base is the workspace, and Dir is the directory of the store.
	Base, Dir string
	problem   string
}

func (e *PlaceError) Error() string {
	return fmt.Sprintf("the directory %s cannot keep branches of the workspace %s: %s", e.Dir, e.Base, e.problem)
}

// suits returns an error if a workspace cannot be the base of a branch in this store with the given backend.
func (s *Store) suits(base string, dir *unix.Stat_t, how Backend) error {
	var own unix.Stat_t
	if err := unix.Stat(s.Dir, &own); err != nil {
		return err
	}
	if own.Dev != dir.Dev {
		return &PlaceError{Base: base, Dir: s.Dir, problem: "they are on different file systems, so an apply could stop halfway; use a directory on the file system of the workspace"}
	}
	if own, known := filetree.MountID(s.Dir); known {
		if other, known := filetree.MountID(base); known && own != other {
			return &PlaceError{Base: base, Dir: s.Dir, problem: "they are in two mounts of the same file system, and the kernel renames no file from one mount to the other. In a container, mount one directory that contains both; otherwise use a directory in the mount of the workspace"}
		}
	}
	if tool.Within(base, s.Dir) {
		return &PlaceError{Base: base, Dir: s.Dir, problem: "the directory is in the workspace; use one outside of it"}
	}
	if how.Copy {
		return exchanges(s.Dir)
	}
	if err := overlay.Unsupported(base); err != nil {
		return &NoOverlayError{err}
	}
	return nil
}

// exchanges returns an error if the file system cannot exchange two names in a directory in one step. An apply needs
// this operation.
func exchanges(dir string) error {
	var at [2]string
	for i := range at {
		f, err := os.CreateTemp(dir, ".exchange-")
		if err != nil {
			return err
		}
		at[i] = f.Name()
		_ = f.Close()
		defer os.Remove(at[i]) //nolint:errcheck // a test
	}
	if err := filetree.ExchangePaths(at[0], at[1]); err != nil {
		return fmt.Errorf("the file system of %s cannot exchange two files atomically, which the apply of a branch needs: %w. Use a workspace and a state directory on a local file system", dir, err)
	}
	return nil
}

// Discard removes a branch with all its changes. The next [Store.Clean] removes the data.
func (s *Store) Discard(b *Branch) error {
	return s.discardIf(b, func() bool { return true })
}

// discardIf discards a branch if a condition is true. While it checks the condition, no session can use the branch.
func (s *Store) discardIf(b *Branch, condition func() bool) error {
	held, err := s.claim(b, false)
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // only a lock
	if !condition() {
		return nil
	}
	return s.drop(b)
}

// DiscardEmpty removes a branch if it never had a change.
func (s *Store) DiscardEmpty(b *Branch) error {
	held, err := b.lock()
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // only a lock
	for _, name := range []string{appliedDir, checkpoint.Dir} {
		if _, err := os.Lstat(filepath.Join(b.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if b.Copy != nil || !filetree.IsEmpty(b.Layer()) {
		return nil
	}
	return s.drop(b)
}

// drop removes a branch, which must be locked.
func (s *Store) drop(b *Branch) error {
	if err := os.Rename(b.dir, filepath.Join(s.Dir, dustbinDir+"-"+rand.Text())); err != nil {
		return fmt.Errorf("the branch %s cannot be discarded: %w", b.Name, err)
	}
	return nil // do not sync: if the machine stops now, the branch can reappear
}
