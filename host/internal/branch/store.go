// Package branch implements branches: copy-on-write layers over a workspace. Everything that a session does in a branch
// goes into the layer. The workspace, which is the base of the branch, stays as it is until the layer is applied.
//
// [Store] knows the branches, [Mounts] mounts them for the tools of a host, and [Branch.Changes] lists what a layer
// changes. [Store.Apply] makes these changes in the base as one, and [Store.Revert] takes them back.
//
// A branch is its directory: nothing in memory counts. Store and Mounts are safe for concurrent use by several processes,
// because one lock of each branch decides which process may use its layer.
package branch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/internal/flock"
)

// Names of the files in the directory of a branch.
const (
	recordFile  = "branch.json"
	lockFile    = "lock"
	probeFile   = "probe"
	upperDir    = "upper"
	workDir     = "work"
	appliedDir  = "applied"
	dustbinDir  = ".discarded"
	journalFile = "journal.json"
	// progressFile is beside journalFile.
	progressFile = "progress.json"
)

// Store is the directory with the branches of a state directory.
type Store struct {
	Dir string
	// Guard is used when an apply is completed that a killed process began. Nil means no guard.
	Guard Guard
}

// Guard prepares for changes of a base. The returned function is called after the changes. If it fails, nothing is changed.
type Guard func(base string) (after func(), err error)

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
	// Since is the time of the base's file system at which the branch began, in nanoseconds. A path of the base that
	// changed later can conflict with the layer. Renewed overrides Since for single paths and what is below them.
	Since   int64            `json:"since"`
	Renewed map[string]int64 `json:"renewed,omitempty"`
	// Sessions lists the sessions that used the branch.
	Sessions []string `json:"sessions,omitempty"`
	// Boot identifies the boot of the machine in which the branch is mounted, or was mounted when its host was killed.
	// Empty means that the layer is complete on disk.
	Boot string `json:"boot,omitempty"`
	// Applied counts the applied changes that can be reverted.
	Applied int `json:"applied,omitempty"`
	// Of is the name of the branch whose changes a preview shows. Empty means the workspace. OfState is the state of that
	// branch's layer when the preview began. See [Store.Preview].
	Of      string `json:"of,omitempty"`
	OfState string `json:"of_state,omitempty"`
	// Shown is the state of the layer when a person was shown its changes. Empty means that nobody was.
	Shown string `json:"shown,omitempty"`

	newest newestManifest

	dir string
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CheckName returns an error if a text cannot be the name of a branch.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a branch. Use up to 63 lower-case letters, digits, dots, dashes and underscores, and begin with a letter or a digit", name)
	}
	return nil
}

// NotFoundError means that a workspace has no branch of a name.
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
	PID  int // 0 if it is not known
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

// Layer returns the directory that contains all changes of the branch.
func (b *Branch) Layer() string { return filepath.Join(b.dir, upperDir) }

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
		if b, err := read(filepath.Join(s.Dir, e.Name())); err == nil && e.IsDir() {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *Branch) int {
		return cmp.Or(strings.Compare(a.Base, b.Base), strings.Compare(a.Owner, b.Owner), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// Make returns a branch of an owner's workspace. It creates a missing branch.
func (s *Store) Make(owner, base, name string) (*Branch, error) {
	b, err := s.Find(owner, base, name)
	if missing := (*NotFoundError)(nil); !errors.As(err, &missing) {
		return b, err
	}
	var dir unix.Stat_t
	if err := unix.Stat(base, &dir); err != nil {
		return nil, fmt.Errorf("the workspace %s cannot be read: %w", base, err)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the directory of branches cannot be created: %w", err)
	}
	if err := s.suits(base, &dir); err != nil {
		return nil, err
	}
	// The branch appears with its complete content, because another process can create it at the same time.
	fresh, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return nil, fmt.Errorf("the branch cannot be created: %w", err)
	}
	defer os.RemoveAll(fresh)                                                                                                   //nolint:errcheck // it is gone after the rename below
	b = &Branch{Name: name, Base: base, Device: uint64(dir.Dev), Inode: dir.Ino, Owner: owner, Created: time.Now(), dir: fresh} //nolint:unconvert // not all systems have 64 bits here
	if err := b.fill(&dir); err != nil {
		return nil, fmt.Errorf("the branch cannot be created: %w", err)
	}
	at := s.path(owner, base, name)
	err = os.Rename(fresh, at)
	if err != nil && unfinished(at) {
		err = errors.Join(removeAll(at), os.Rename(fresh, at))
	}
	if err != nil {
		if made, found := s.Find(owner, base, name); found == nil {
			return made, nil
		}
		return nil, fmt.Errorf("the branch cannot be created: %w", err)
	}
	b.dir = at
	return b, nil
}

// unfinished reports whether a directory is a branch that was made when the machine stopped, and that nobody used.
func unfinished(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	return err == nil && len(text) == 0 && empty(filepath.Join(dir, upperDir))
}

// fill creates the content of a new branch.
func (b *Branch) fill(base *unix.Stat_t) error {
	if err := b.freshLayer(base); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, lockFile), nil, 0o600); err != nil {
		return err
	}
	since, err := b.tick()
	if err != nil {
		return err
	}
	b.Since = since
	// Nothing is lost if the machine stops now. The first mount syncs the record, before the layer has a change.
	return b.write(func(path string, content []byte) error { return os.WriteFile(path, content, 0o600) })
}

// freshLayer creates an empty layer. Its root directory looks like that of the base.
func (b *Branch) freshLayer(base *unix.Stat_t) error {
	if err := os.MkdirAll(filepath.Join(b.dir, workDir), 0o700); err != nil {
		return err
	}
	return makeLayer(b.Layer(), base)
}

// now returns the current time of the file system, in nanoseconds. A file that changes later has at least this ctime.
func (b *Branch) now() (int64, error) {
	// A change of the mode needs no space, so a full disk cannot stop an apply here.
	f, err := os.OpenFile(filepath.Join(b.dir, probeFile), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	err = errors.Join(f.Chmod(0o600), unix.Fstat(int(f.Fd()), &st), f.Close())
	return st.Ctim.Nano(), err
}

// tick returns a time of the file system that is later than the ctime of everything that has changed so far.
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

// suits returns an error if a workspace cannot be the base of a branch in this store.
func (s *Store) suits(base string, dir *unix.Stat_t) error {
	var own unix.Stat_t
	if err := unix.Stat(s.Dir, &own); err != nil {
		return err
	}
	if own.Dev != dir.Dev {
		return fmt.Errorf("the workspace %s and the state directory %s are on different file systems, and a branch could then not be applied as one. Use a state directory on the file system of the workspace: --state DIR", base, s.Dir)
	}
	if rel, err := filepath.Rel(base, s.Dir); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("the directory of branches %s is in the workspace %s. Use a state directory outside of it: --state DIR", s.Dir, base)
	}
	return unsupported(base)
}

// check returns an error if the base is no longer the directory over which the branch was made.
func (b *Branch) check() error {
	var st unix.Stat_t
	if err := unix.Stat(b.Base, &st); err != nil {
		return fmt.Errorf("the base %s of the branch %s cannot be read: %w. If it was moved, move it back; if it is a volume, mount it", b.Base, b.Name, err)
	}
	if uint64(st.Dev) != b.Device || st.Ino != b.Inode { //nolint:unconvert // as above
		return fmt.Errorf("the directory %s is not the one over which the branch %s was made: it is inode %d on device %#x, and the base was inode %d on device %#x. Move the old directory back, or save what you need (toolhost branch diff %[2]s) and discard the branch",
			b.Base, b.Name, st.Ino, st.Dev, b.Inode, b.Device)
	}
	return nil
}

// lock reserves for this process the right to use the layer. The caller must close the file. If another process uses the layer,
// the error is an [InUseError].
func (b *Branch) lock() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(b.dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("the branch %s cannot be locked: %w", b.Name, err)
	}
	if flock.Try(f) {
		// Another process can have changed or discarded the branch before it gave the lock back.
		now, err := read(b.dir)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the branch %s does not exist any more: %w", b.Name, err), f.Close())
		}
		*b = *now
		// After a host was killed, processes of the branch can take a moment to end. The kernel would mount one layer twice.
		if boot, err := bootID(); b.Boot != "" && (err != nil || b.Boot == boot) {
			if pid := b.lingering(); pid > 0 {
				return nil, errors.Join(&InUseError{Name: b.Name, PID: pid}, f.Close())
			}
		}
		_ = f.Truncate(0)
		_, _ = fmt.Fprintf(f, "%d", os.Getpid()) // only for the message of another process
		return f, nil
	}
	used := &InUseError{Name: b.Name}
	_, _ = fmt.Fscan(f, &used.PID)
	return nil, errors.Join(used, f.Close())
}

// Discard removes a branch with all its changes. The next [Store.Clean] removes the data.
func (s *Store) Discard(b *Branch) error {
	held, err := b.lock()
	if err != nil {
		return err
	}
	defer held.Close() //nolint:errcheck // only a lock
	return s.drop(b)
}

// drop removes a branch, which must be locked.
func (s *Store) drop(b *Branch) error {
	dustbin := filepath.Join(s.Dir, dustbinDir)
	if err := os.MkdirAll(dustbin, 0o700); err != nil {
		return err
	}
	to, err := os.MkdirTemp(dustbin, "")
	if err != nil {
		return err
	}
	if err := os.Rename(b.dir, filepath.Join(to, "branch")); err != nil {
		return fmt.Errorf("the branch %s cannot be discarded: %w", b.Name, err)
	}
	return nil // if the machine stops now, the branch can come back
}

// previewAge is the time after which a preview is discarded that nobody applied.
const previewAge = 24 * time.Hour

// removeAll removes a tree, also if directories in it cannot be read, as the kernel's own directory of an overlay.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // it is removed below; ignore the error, because RemoveAll reports what it cannot remove
		}
		return nil
	})
	return os.RemoveAll(dir)
}
