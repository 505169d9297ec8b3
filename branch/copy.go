package branch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/flock"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
	"toolhost.dev/branch/internal/mirror"
)

// A branch of the kind "copy" has a copy of the base at another path, in which its sessions work. Its layer is computed
// from the differences between the copy and the base. Everything else works as for an overlay.

// These are names in the directory of a branch of the kind "copy". Accepting a preview exchanges the directory copyDir
// as a whole.
const (
	copyDir      = "copy"
	filesDir     = "files"
	knownFile    = "known"
	temporaryDir = "new"
	// staleFile exists while the copy does not equal the base with the layer over it.
	staleFile    = "stale"
	copyLockFile = "copylock"
)

// Backend selects how a branch is made. The zero value is an overlay.
type Backend struct {
	// Copy makes a copy of the workspace.
	Copy bool
	// MaxBytes and MaxFiles limit the size and the number of the copied files. Zero means no limit. If the copies share
	// their data with the workspace, MaxBytes does not apply.
	MaxBytes int64
	MaxFiles int
}

// NoOverlayError means that a workspace cannot have an overlay. A copy of the workspace may still be possible.
type NoOverlayError struct{ Reason error }

func (e *NoOverlayError) Error() string { return e.Reason.Error() }

func (e *NoOverlayError) Unwrap() error { return e.Reason }

// Copy describes a branch that is a copy.
type Copy struct {
	// Shared means that the copied files share their data with the workspace. The copy is then complete.
	Shared bool `json:"shared"`
	// Skipped is the number of files and directories that the copy leaves out because git ignores them. Unreadable
	// lists at most 20 files that the user cannot read.
	Skipped    int      `json:"skipped,omitempty"`
	Unreadable []string `json:"unreadable,omitempty"`
}

// Tree returns the directory in which the sessions of the branch work. It is the base, unless the branch is a copy.
func (b *Branch) Tree() string {
	if b.Copy == nil {
		return b.Base
	}
	name := filepath.Base(b.Base) // keep the name, because programs name projects after their directory
	if name == "/" {
		name = "root"
	}
	return filepath.Join(b.dir, copyDir, filesDir, name)
}

func (b *Branch) inCopy(name string) string { return filepath.Join(b.dir, copyDir, name) }

// copied returns the mirror of a branch that is a copy.
func (b *Branch) copied() *mirror.Mirror {
	if b.mirror == nil || b.mirror.Tree != b.Tree() {
		b.mirror = &mirror.Mirror{Base: b.Base, Tree: b.Tree(), Layer: b.Layer(), Temporary: b.inCopy(temporaryDir), File: b.inCopy(knownFile), Step: killpoint.Pass}
		b.mirrorOf = unix.Stat_t{}
	}
	b.mirror.Ignored = nil
	if !b.Copy.Shared {
		ignored := change.View{Base: b.Base}.Ignored()
		b.mirror.Ignored = func(path string, dir bool) bool { return ignored.Ignored(path, dir) }
	}
	return b.mirror
}

// withCopy calls a function with the mirror of the branch. Meanwhile, no other process can use the mirror. For an
// overlay, withCopy does nothing.
func (b *Branch) withCopy(do func(*mirror.Mirror) error) error {
	if b.Copy == nil {
		return nil
	}
	if b.copyLock == nil {
		release, _, err := b.openCopyLock()
		if err != nil {
			return err
		}
		defer release()
	}
	m := b.copied()
	var now unix.Stat_t
	if err := unix.Lstat(m.File, &now); err != nil {
		return fmt.Errorf("the copy of the branch %s is damaged: %w. Save what you need from %s, and discard the branch", b.Name, err, b.Tree())
	}
	if now.Ino != b.mirrorOf.Ino || now.Ctim != b.mirrorOf.Ctim {
		m.Reload()
	}
	err := errors.Join(do(m), unix.Lstat(m.File, &b.mirrorOf))
	if err != nil {
		m.Reload()
	}
	return err
}

// copyMutexes contains a mutex for each branch of the kind "copy", by directory. The mutex excludes calls of this
// process, and a file lock excludes other processes.
var copyMutexes sync.Map

// openCopyLock locks the mirror, so that other processes and calls cannot use it.
func (b *Branch) openCopyLock() (release func(), lock *os.File, err error) {
	own, _ := copyMutexes.LoadOrStore(b.dir, new(sync.Mutex))
	mu := own.(*sync.Mutex) //nolint:forcetypeassert // nothing else is stored
	mu.Lock()
	f, err := os.OpenFile(filepath.Join(b.dir, copyLockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = flock.Apply(f, syscall.LOCK_EX)
	}
	if err != nil {
		mu.Unlock()
		return nil, nil, fmt.Errorf("the copy of the branch %s cannot be locked: %w", b.Name, err)
	}
	return func() {
		_ = f.Close()
		mu.Unlock()
	}, f, nil
}

// lockCopy locks the mirror for several operations of this Branch object. Meanwhile, no other goroutine may use the
// object.
func (b *Branch) lockCopy() (release func(), err error) {
	if b.Copy == nil {
		return func() {}, nil
	}
	unlock, lock, err := b.openCopyLock()
	if err != nil {
		return nil, err
	}
	b.copyLock = lock
	return func() {
		b.copyLock = nil
		unlock()
	}, nil
}

// gather updates the layer with the changes that sessions made in the copy.
func (b *Branch) gather() error {
	if b.Copy == nil {
		return nil
	}
	do := (*mirror.Mirror).Gather
	if b.stale() {
		do = (*mirror.Mirror).Load // the next process that uses the branch updates the copy
	}
	if err := b.withCopy(do); err != nil {
		return fmt.Errorf("the changes of the branch %s cannot be collected from its copy %s: %w", b.Name, b.Tree(), err)
	}
	return nil
}

func (b *Branch) stale() bool {
	_, err := os.Lstat(b.inCopy(staleFile))
	return err == nil
}

// outdate records that the copy must be updated from the layer and the base. It must be called before the layer or the
// base is changed.
func (b *Branch) outdate() error {
	if b.Copy == nil {
		return nil
	}
	return durable.Replace(b.inCopy(staleFile), nil)
}

// renewCopy updates the copy if it is stale. The copy then equals the base with the layer over it.
func (b *Branch) renewCopy() error {
	if b.Copy == nil || !b.stale() {
		return nil
	}
	if err := b.withCopy((*mirror.Mirror).Project); err != nil {
		return fmt.Errorf("the copy of the branch %s, %s, cannot be brought up to date: %w. The next command in the branch tries again", b.Name, b.Tree(), err)
	}
	killpoint.Pass()
	return os.Remove(b.inCopy(staleFile))
}

// follow copies changes of the base into the copy.
func (b *Branch) follow(paths []string, all bool) error {
	if !all && len(paths) == 0 {
		return nil
	}
	if all {
		paths = nil
	}
	err := b.withCopy(func(m *mirror.Mirror) error { return m.Follow(paths) })
	if err != nil {
		return fmt.Errorf("the changes of the workspace cannot be copied to the branch %s: %w", b.Name, err)
	}
	return nil
}

// renewVersions records that the branch has seen the current versions of the base at the given paths and directories.
// The arguments are the results of the method renew.
func (b *Branch) renewVersions(paths, dirs []string) error {
	return b.withCopy(func(m *mirror.Mirror) error { return m.Renew(paths, dirs) })
}

// makeCopy copies the base for a new branch.
func (b *Branch) makeCopy(how Backend) error {
	for _, name := range []string{copyDir, filepath.Join(copyDir, filesDir), filepath.Join(copyDir, temporaryDir)} {
		if err := os.Mkdir(filepath.Join(b.dir, name), 0o700); err != nil {
			return err
		}
	}
	b.Copy = &Copy{Shared: filetree.SharesData(b.Base, b.inCopy(temporaryDir))}
	limits := mirror.Limits{Bytes: how.MaxBytes, Files: how.MaxFiles}
	if b.Copy.Shared {
		limits.Bytes = 0
	}
	done, err := b.copied().Copy(limits)
	if large := (*mirror.TooLargeError)(nil); errors.As(err, &large) {
		return fmt.Errorf("the workspace %s is too large to copy: %w. The operator can raise the limit: workspace { limits { layer, files } }", b.Base, err)
	}
	b.Copy.Skipped, b.Copy.Unreadable = done.Skipped, done.Unreadable
	return err
}

// inherit copies the changes of a branch into the layer of its preview.
func (b *Branch) inherit(of *Branch) error {
	if b.Copy == nil {
		return nil
	}
	if err := b.outdate(); err != nil {
		return err
	}
	err := of.withCopy(func(from *mirror.Mirror) error {
		return b.withCopy(func(m *mirror.Mirror) error { return m.Inherit(from) })
	})
	return errors.Join(err, b.renewCopy())
}

// versions implements [change.Versions] for a copy. The mirror must be loaded; see [Branch.withCopy].
type versions struct{ b *Branch }

func (v versions) Had(path string) bool { return v.b.mirror.Had(path) }

func (v versions) Touched(path string) bool { return v.b.mirror.Touched(path) }

func (v versions) TouchedBelow(dir string) string { return v.b.mirror.TouchedBelow(dir) }

func (v versions) LeavesOut(path string, dir bool) bool {
	return v.b.mirror.Ignored != nil && v.b.mirror.Ignored(path, dir)
}

// sentence returns the text of an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// OutsideGit returns a note about a workspace whose git directory is elsewhere, such as a linked worktree. Otherwise it
// returns "".
func (b *Branch) OutsideGit() string {
	at := filepath.Join(b.Base, ".git")
	to, err := filepath.EvalSymlinks(at)
	if err != nil {
		return ""
	}
	text, err := filetree.ReadSmall(to, 4096)
	if dir, is := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: "); err == nil && is {
		if to = dir; !filepath.IsAbs(dir) {
			to = filepath.Join(b.Base, dir)
		}
	}
	if tool.Within(b.Base, to) {
		return ""
	}
	return fmt.Sprintf("The git directory of the workspace, %s, is outside of it and not in the branch %s. The branch holds back no commits or other changes of it: where the sandbox permits them, they take effect at once, and otherwise git fails", to, b.Name)
}

// Describe returns a note about the copy for its sessions.
func (c *Copy) Describe(b *Branch) string {
	text := fmt.Sprintf("The branch %s is a copy of the workspace %s. Its files are in %s, so use paths in this directory", b.Name, b.Base, b.Tree())
	if c.Skipped > 0 {
		text += fmt.Sprintf(". It leaves out %s that git ignores: build or install again what you need", entries(c.Skipped))
	}
	if len(c.Unreadable) > 0 {
		text += fmt.Sprintf(". It also leaves out files that cannot be read: %s", change.QuotePath(strings.Join(c.Unreadable, ", ")))
	}
	return text
}

func entries(n int) string {
	if n == 1 {
		return "1 file or directory"
	}
	return fmt.Sprintf("%d files and directories", n)
}
