// Package workcopy keeps the working copy of a branch that has no overlay. The sessions of the branch work in a copy of
// the base at another path. The layer of the branch is computed from the differences between the copy and the base.
//
// [Make] copies a base, and [Open] returns an existing copy. [Copy.Gather] updates the layer from the copy, and
// [Copy.Follow] updates the copy from the base. Before the layer or the base is changed by other means, [Copy.Outdate]
// must be called, and [Copy.Renew] afterwards; if the process is killed in between, the next one calls Renew.
package workcopy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/killpoint"
	"toolhost.dev/branch/internal/mirror"
)

// These are names in the directory of a branch. Accepting a preview exchanges the directory copyDir as a whole.
const (
	copyDir      = "copy"
	filesDir     = "files"
	upperDir     = "upper"
	knownFile    = "known"
	temporaryDir = "new"
	// staleFile exists while the copy does not equal the base with the layer over it.
	staleFile = "stale"
	lockFile  = "copylock"
)

// Copy is the working copy of a branch. A nil Copy stands for an overlay. Only its methods that return paths or
// versions do something.
type Copy struct {
	// Name is the name of the branch, for messages.
	Name string
	// Base is the directory that was copied.
	Base string
	// Shared means that the copied files share their data with the base.
	Shared bool

	dir      string // directory of the branch
	mirror   *mirror.Mirror
	mirrorOf unix.Stat_t // state of the file from which the mirror was read
	lock     *os.File    // set while this object holds the lock
}

// Open returns the copy in the directory of a branch.
func Open(dir, name, base string, shared bool) *Copy {
	return &Copy{Name: name, Base: base, Shared: shared, dir: dir}
}

// Make copies a base into the directory of a new branch. If the copied files share their data with the base, the limit
// of bytes does not apply. If the base exceeds the limits, the error is a [mirror.TooLargeError].
func Make(dir, name, base string, limits mirror.Limits) (*Copy, mirror.Copied, error) {
	for _, part := range []string{copyDir, filepath.Join(copyDir, filesDir), filepath.Join(copyDir, temporaryDir)} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o700); err != nil {
			return nil, mirror.Copied{}, err
		}
	}
	c := Open(dir, name, base, false)
	if c.Shared = filetree.SharesData(base, c.path(temporaryDir)); c.Shared {
		limits.Bytes = 0
	}
	done, err := c.open().Copy(limits)
	return c, done, err
}

// Move declares that the directory of the branch was renamed.
func (c *Copy) Move(dir string) {
	if c != nil {
		c.dir = dir
	}
}

func (c *Copy) path(name string) string { return filepath.Join(c.dir, copyDir, name) }

// Dir returns the directory that contains the files of the copy, its layer and its records.
func (c *Copy) Dir() string { return c.path("") }

// Layer returns the directory with the layer.
func (c *Copy) Layer() string { return c.path(upperDir) }

// Tree returns the directory in which the sessions of the branch work.
func (c *Copy) Tree() string {
	name := filepath.Base(c.Base) // keep the name, because programs name projects after their directory
	if name == "/" {
		name = "root"
	}
	return filepath.Join(c.path(filesDir), name)
}

// open returns the mirror of the copy.
func (c *Copy) open() *mirror.Mirror {
	if c.mirror == nil || c.mirror.Tree != c.Tree() {
		c.mirror = &mirror.Mirror{
			Base: c.Base, Tree: c.Tree(), Layer: c.Layer(), Temporary: c.path(temporaryDir), File: c.path(knownFile),
			Step: killpoint.Pass,
		}
		c.mirrorOf = unix.Stat_t{}
	}
	c.mirror.Ignored = nil
	if !c.Shared {
		ignored := change.View{Base: c.Base}.Ignored()
		c.mirror.Ignored = func(path string, dir bool) bool { return ignored.Ignored(path, dir) }
	}
	return c.mirror
}

// with calls a function with the mirror. Meanwhile, no other process can use the mirror.
func (c *Copy) with(do func(*mirror.Mirror) error) error {
	if c == nil {
		return nil
	}
	if c.lock == nil {
		release, _, err := c.openLock()
		if err != nil {
			return err
		}
		defer release()
	}
	m := c.open()
	var now unix.Stat_t
	if err := unix.Lstat(m.File, &now); err != nil {
		return fmt.Errorf("the copy of the branch %s is damaged: %w. Save what you need from %s, and discard the branch", c.Name, err, c.Tree())
	}
	if now.Ino != c.mirrorOf.Ino || now.Ctim != c.mirrorOf.Ctim {
		m.Reload()
	}
	err := errors.Join(do(m), unix.Lstat(m.File, &c.mirrorOf))
	if err != nil {
		m.Reload()
	}
	return err
}

// mutexes contains a mutex for each copy, by the directory of the branch. The mutex excludes calls of this process, and
// a file lock excludes other processes.
var mutexes sync.Map

// openLock locks the mirror, so that other processes and calls cannot use it.
func (c *Copy) openLock() (release func(), lock *os.File, err error) {
	own, _ := mutexes.LoadOrStore(c.dir, new(sync.Mutex))
	mu := own.(*sync.Mutex) //nolint:forcetypeassert // nothing else is stored
	mu.Lock()
	f, err := os.OpenFile(filepath.Join(c.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = flock.Apply(f, syscall.LOCK_EX)
	}
	if err != nil {
		mu.Unlock()
		return nil, nil, fmt.Errorf("the copy of the branch %s cannot be locked: %w", c.Name, err)
	}
	return func() {
		_ = f.Close()
		mu.Unlock()
	}, f, nil
}

// Lock locks the copy for several operations of this object. Meanwhile, no other goroutine may use the object.
func (c *Copy) Lock() (release func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	unlock, lock, err := c.openLock()
	if err != nil {
		return nil, err
	}
	c.lock = lock
	return func() {
		c.lock = nil
		unlock()
	}, nil
}
