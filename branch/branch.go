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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/checkpoint"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/workcopy"
)

// These are the names of files in the directory of a branch.
const (
	recordFile = "branch.json"
	lockFile   = "lock"
	probeFile  = "probe"
	upperDir   = "upper"
	workDir    = "work"
	appliedDir = "applied"
)

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

	newest checkpoint.Newest

	work *workcopy.Copy // nil unless the branch is a copy
	dir  string
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
		return b.work.Layer()
	}
	return filepath.Join(b.dir, upperDir)
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
	if b.Copy != nil {
		b.work = workcopy.Open(dir, b.Name, b.Base, b.Copy.Shared)
	}
	return b, nil
}

// unfinished reports whether a directory is a branch that nobody has used, and whose record is empty because the
// machine stopped.
func unfinished(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	return err == nil && len(text) == 0 && filetree.IsEmpty(filepath.Join(dir, upperDir))
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
