// Package branch implements branches: copy-on-write layers over a workspace. All changes that a session makes in a
// branch go into the layer. The workspace, which is the base of the branch, stays unchanged until the layer is applied.
//
// [Open] returns the branches of a directory, and [Mounts.Run] runs a command in one of them. [Branch.Changes] lists
// the changes of a layer. [Store.Apply] makes all of these changes in the base, or none of them, and [Store.Revert]
// undoes an apply. [Store.Checkpoint] and [Store.Restore] are for changes within a branch.
//
// A program that starts processes by other means takes a mount for each of them from [Mounts.Clone]. In this module,
// the host is the program that has the branches, a session is one user of a branch, and a call is a use.
//
// The state of a branch is completely in its directory, and not in memory. Store and Mounts are safe for concurrent use
// by several processes: each branch has a lock, and only the process that holds the lock may use the layer.
package branch

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/mirror"
	"toolhost.dev/branch/internal/overlay"
)

// These are the names of files in the directory of a branch.
const (
	recordFile = "branch.json"
	lockFile   = "lock"
	probeFile  = "probe"
	upperDir   = "upper"
	workDir    = "work"
	appliedDir = "applied"
	dustbinDir = ".discarded" // a prefix: each discarded branch has a directory of its own, which nothing else removes meanwhile
)

// Store is the directory with the branches of a state directory.
type Store struct {
	Dir string
	// Guard is called when this process completes the apply of a killed process; see [Guard]. Nil means no guard.
	Guard Guard
}

// Guard is a function that is called before changes of a base. If it fails, nothing is changed. The returned function
// "after" is called after the changes. It reports whether it has itself changed the base.
type Guard func(base string) (after func() (changed bool), err error)

// Branch is one branch.
type Branch struct {
	Name string `json:"name"`
	// Base is the workspace below the layer. Device and Inode identify its directory.
	Base   string `json:"base"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Owner is the principal whose sessions use the branch. Empty means the local user.
	Owner   string    `json:"owner,omitempty"`
	Created time.Time `json:"created"`
	derivation
	// Sessions lists the sessions that used the branch.
	Sessions []string `json:"sessions,omitempty"`
	// Boot identifies the boot of the machine during which the branch was mounted. It is empty after a regular unmount;
	// the layer is then complete on disk.
	Boot string `json:"boot,omitempty"`
	// Applied is the number of applies that can be reverted.
	Applied int `json:"applied,omitempty"`
	// Of is the name of the branch whose changes a preview shows. Empty means the workspace. OfState identifies the
	// state of the other branch's layer when the preview began. See [Store.Preview].
	Of      string `json:"of,omitempty"`
	OfState string `json:"of_state,omitempty"`
	// Shown identifies the state of the layer when a person was shown its changes. Empty means that nobody was shown
	// the changes.
	Shown string `json:"shown,omitempty"`

	// Held means that the preview belongs to an unanswered permission request. Only the answer to this request can
	// apply it; see [Store.Answered].
	Held bool `json:"held,omitempty"`
	// Unasked means that calls ran in the branch for which the policy asks a person if they run in the workspace.
	// Whoever applies the branch must have the person's consent; see [Selection.Allowed].
	Unasked bool `json:"unasked,omitempty"`

	// Copy is set if the branch is a copy of the workspace.
	Copy *Copy `json:"copy,omitempty"`

	newest newestManifest

	mirror   *mirror.Mirror
	mirrorOf unix.Stat_t // state of the file from which the mirror was read
	copyLock *os.File    // set while this object holds the lock of the copy

	dir string
}

// maxName is the maximum length of the name of a branch.
const maxName = 63

// CheckName returns an error if a text cannot be the name of a branch.
func CheckName(name string) error {
	alphabet := "abcdefghijklmnopqrstuvwxyz0123456789._-"
	if name == "" || len(name) > maxName || strings.Trim(name, alphabet) != "" || strings.ContainsAny(name[:1], "._-") {
		return fmt.Errorf("%q cannot be the name of a branch. Use up to 63 lower-case letters, digits, dots, dashes and underscores, and begin with a letter or a digit", name)
	}
	return nil
}

// NotFoundError means that a workspace has no branch with the given name.
type NotFoundError struct {
	Name, Base string
	known      []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the workspace %s has no branch %q.%s See toolhost branch list", e.Base, e.Name, suggest.DidYouMean(e.Name, e.known))
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

// ID identifies the branch among all branches of the store.
func (b *Branch) ID() string { return filepath.Base(b.dir) }

// mountName identifies the mount of the branch among all mounts of the machine.
func (b *Branch) mountName() string {
	sum := sha256.Sum256([]byte(b.dir))
	return hex.EncodeToString(sum[:8])
}

// Layer returns the directory that contains all changes of the branch. For a branch of the kind "copy", it contains
// them only after they were collected from the copy.
func (b *Branch) Layer() string {
	if b.Copy != nil {
		return b.inCopy(upperDir)
	}
	return filepath.Join(b.dir, upperDir)
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

func read(dir string) (*Branch, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return nil, err
	}
	if unfinished(dir) {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	b := &Branch{dir: dir}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("the branch in %s is damaged: %w", dir, err)
	}
	return b, nil
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
		return cmp.Or(strings.Compare(a.Base, b.Base), strings.Compare(a.Owner, b.Owner), strings.Compare(a.Name, b.Name))
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
	return nil
}

// unfinished reports whether a directory is a branch that nobody has used, and whose record is empty because the
// machine stopped.
func unfinished(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	return err == nil && len(text) == 0 && filetree.IsEmpty(filepath.Join(dir, upperDir))
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

// fill creates the content of a new branch.
func (b *Branch) fill(how Backend) error {
	if err := os.WriteFile(filepath.Join(b.dir, lockFile), nil, 0o600); err != nil {
		return err
	}
	since, err := b.tick()
	if err != nil {
		return err
	}
	b.Since = since
	b.watchClock()
	if how.Copy {
		if err := b.makeCopy(how); err != nil {
			return err
		}
	}
	if err := b.freshLayer(); err != nil {
		return err
	}
	// The record need not be synced yet, because nothing is lost if the machine stops now. The first mount syncs it
	// before the layer can contain a change.
	return b.write(func(path string, content []byte) error { return os.WriteFile(path, content, 0o600) })
}

// freshLayer creates an empty layer and its work directory.
func (b *Branch) freshLayer() error {
	if err := os.MkdirAll(filepath.Join(b.dir, workDir), 0o700); err != nil {
		return err
	}
	return change.MakeLayer(b.Layer(), b.Base)
}

// now returns the current time of the file system, in nanoseconds. The ctime of a file that changes later is at least
// this time.
func (b *Branch) now() (int64, error) {
	// Get the time by a change of the mode. It needs no space, so a full disk cannot stop an apply here.
	f, err := os.OpenFile(filepath.Join(b.dir, probeFile), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	err = errors.Join(f.Chmod(0o600), unix.Fstat(int(f.Fd()), &st), f.Close())
	return st.Ctim.Nano(), err
}

// tick returns a time of the file system that is later than the ctime of each earlier change.
func (b *Branch) tick() (int64, error) {
	first, err := b.now()
	for later := first; ; time.Sleep(time.Millisecond) {
		if err != nil || later > first {
			return later, err
		}
		later, err = b.now()
	}
}

// save writes the record of the branch. A reader sees either the old or the new record.
func (b *Branch) save() error {
	return b.write(durable.Replace)
}

// write writes the record of the branch with a function of package durable.
func (b *Branch) write(how func(path string, content []byte) error) error {
	text, err := json.MarshalIndent(b, "", "\t")
	if err != nil {
		return err
	}
	return how(filepath.Join(b.dir, recordFile), append(text, '\n'))
}

// suits returns an error if a workspace cannot be the base of a branch in this store with the given backend.
func (s *Store) suits(base string, dir *unix.Stat_t, how Backend) error {
	var own unix.Stat_t
	if err := unix.Stat(s.Dir, &own); err != nil {
		return err
	}
	if own.Dev != dir.Dev {
		return fmt.Errorf("the workspace %s and the state directory %s are on different file systems, and a branch could then not be applied as one. Use a state directory on the file system of the workspace: --state DIR", base, s.Dir)
	}
	if own, known := filetree.MountID(s.Dir); known {
		if other, known := filetree.MountID(base); known && own != other {
			return fmt.Errorf("the workspace %s and the state directory %s are in two mounts of the same file system, and the kernel renames no file from one to the other, so a branch could not be applied. Use a state directory in the mount of the workspace: --state DIR. In a container, mount one directory that has both", base, s.Dir)
		}
	}
	if tool.Within(base, s.Dir) {
		return fmt.Errorf("the directory of branches %s is in the workspace %s. Use a state directory outside of it: --state DIR", s.Dir, base)
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
		return fmt.Errorf("the file system of %s cannot exchange two names in one step (%w), so the changes of a branch could not be applied as one. Use a workspace and a state directory on a local file system", dir, err)
	}
	return nil
}

// check returns an error if the base is no longer the directory for which the branch was made.
func (b *Branch) check() error {
	var st unix.Stat_t
	if err := unix.Stat(b.Base, &st); err != nil {
		return fmt.Errorf("the base %s of the branch %s cannot be read: %w. If it was moved, move it back; if it is a volume, mount it", b.Base, b.Name, err)
	}
	if uint64(st.Dev) != b.Device || st.Ino != b.Inode { //nolint:unconvert // as above
		return fmt.Errorf("the directory %s is not the one over which the branch %s was made: it is inode %d on device %#x, and the base was inode %d on device %#x. Move the old directory back, or save what you need from %s, and discard the branch",
			b.Base, b.Name, st.Ino, st.Dev, b.Inode, b.Device, b.saved())
	}
	return nil
}

// saved returns the directory from which people can save files of a branch that can no longer be used.
func (b *Branch) saved() string {
	if b.Copy != nil {
		return b.Tree()
	}
	return b.Layer()
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
	for _, name := range []string{appliedDir, checkpointsDir} {
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

// previewAge is the age at which a preview that nobody has applied is discarded.
const previewAge = 24 * time.Hour
