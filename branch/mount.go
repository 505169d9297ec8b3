package branch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/basewatch"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/overlay"
)

// Mounts contains the branches that this process has mounted. Most programs get it from [Open]. The zero value with a
// Store and a Launcher is ready to use, too.
type Mounts struct {
	Store *Store
	// Launcher returns the path of the program that holds mounts, or an error if branches cannot be mounted.
	Launcher func() (string, error)
	// End ends the processes of a branch before it is unmounted. It returns after they have ended.
	End func(key string)

	mu      sync.Mutex
	by      map[string]*Mount
	watches map[string]*sharedWatch // by base
	last    atomic.Int64
	closed  bool
	free    *sync.Cond // uses mu; signals the end of a restore
}

// Mount is a branch that this process has mounted.
type Mount struct {
	Branch *Branch
	// Key identifies this mount of the branch in this process.
	Key string

	// root is the host's own clone of the mount, and holder is the process that keeps the mount. Both are nil for a
	// branch of the kind "copy".
	root   *os.File
	holder *overlay.Holder
	lock   *os.File
	base   *sharedWatch
	// users is the number of calls that have acquired the mount. running counts only the calls that have begun.
	// Mounts.mu guards both and the following fields.
	users, running int
	by             map[string]bool // the sessions that used the mount
	held           bool            // a checkpoint or a restore uses the files, and calls must wait
	ask            sync.Mutex      // only one request to the holder at a time

	checkpoints sync.Mutex // only one checkpoint at a time
	usage       atomic.Pointer[usage]
	ancestry    change.Ancestry
	// refreshed is the position up to which the branch's processes see the changes of the base. The mutex ask guards
	// it.
	refreshed basewatch.Position
}

// sharedWatch is the watch of a base that all mounts of the base's branches share.
type sharedWatch struct {
	*basewatch.Watch
	users int // guarded by Mounts.mu
}

// View returns a path through which this process sees the files of the branch. It is valid until the mount is released.
// View returns "" for a branch of the kind "copy", because every process sees its files under the same path.
func (m *Mount) View() string {
	if m.root == nil {
		return ""
	}
	return "/proc/self/fd/" + strconv.Itoa(int(m.root.Fd()))
}

// Acquire mounts a branch if it is not mounted. The caller must call release once it no longer uses the mount.
func (m *Mounts) Acquire(b *Branch, session string) (mount *Mount, release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for mount = m.by[b.ID()]; mount != nil && mount.holder != nil && !mount.holder.Alive(); mount = m.by[b.ID()] {
		if mount.held {
			m.free.Wait() // the checkpoint or the restore still uses the layer, and the lock is closed with the mount
			continue
		}
		m.unmount(mount)
	}
	if m.closed {
		return nil, nil, errors.New("the host is closing")
	}
	if mount == nil {
		if mount, err = m.mount(b, session); err != nil {
			return nil, nil, err
		}
	}
	mount.users++
	if mount.by == nil {
		mount.by = make(map[string]bool)
	}
	mount.by[session] = true
	if mount.Branch.used(session) {
		_ = mount.Branch.save() // ignore the error: the list is only information
	}
	return mount, sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		mount.users--
	}), nil
}

// Begin declares that a call that has acquired a mount now begins to run. It waits until no restore changes the files.
// The caller must call end before it releases the mount.
func (m *Mounts) Begin(mount *Mount) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for mount.held {
		m.free.Wait()
	}
	mount.running++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		mount.running--
	}
}

// Mounted returns the branch with the given name if this process has mounted it. Otherwise it returns nil. While a
// branch is mounted, no other process can change it.
func (m *Mounts) Mounted(owner, base, name string) *Branch {
	id := filepath.Base(m.Store.path(owner, base, name))
	m.mu.Lock()
	defer m.mu.Unlock()
	if mount := m.by[id]; mount != nil {
		return mount.Branch
	}
	return nil
}

// maxSessions limits the sessions in the record of a branch.
const maxSessions = 20

// used adds a session to the sessions of the branch. It returns true if the list changed.
func (b *Branch) used(session string) bool {
	if session == "" || slices.Contains(b.Sessions, session) || len(b.Sessions) >= maxSessions {
		return false
	}
	b.Sessions = append(b.Sessions, session)
	return true
}

func (m *Mounts) mount(b *Branch, session string) (*Mount, error) {
	launcher := ""
	if b.Copy == nil {
		var err error
		if launcher, err = m.Launcher(); err != nil {
			return nil, &NoOverlayError{err}
		}
	}
	store := cmp.Or(m.Store, &Store{Dir: filepath.Dir(b.dir)})
	lock, err := store.ready(b)
	if err != nil {
		return nil, err
	}
	out := &Mount{Branch: b, Key: fmt.Sprintf("%s#%d", b.ID(), m.last.Add(1)), lock: lock}
	if err := out.start(launcher, session); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if m.by == nil {
		m.by, m.watches = make(map[string]*Mount), make(map[string]*sharedWatch)
	}
	m.by[b.ID()] = out
	if out.base = m.watches[b.Base]; out.base == nil {
		out.base = &sharedWatch{Watch: basewatch.New(b.Base)}
		m.watches[b.Base] = out.base
	}
	out.base.users++
	return out, nil
}

// start mounts the branch. The caller must hold the branch's lock.
func (m *Mount) start(launcher, session string) error {
	b := m.Branch
	if err := b.check(); err != nil {
		return err
	}
	boot, err := overlay.BootID()
	if err != nil {
		return err
	}
	// Create a new work directory for the kernel. The kernel marks the work directory of an overlay that it does not
	// sync, and refuses to use it again.
	work := filepath.Join(b.dir, workDir)
	b.Boot = boot
	b.watchClock()
	b.used(session)
	// The record must reach the disk before any change of the layer. No sync is needed here, because the file system
	// keeps this order.
	if err := errors.Join(filetree.RemoveAll(work), os.Mkdir(work, 0o700),
		b.write(durable.ReplaceUnsynced)); err != nil {
		return fmt.Errorf("the branch %s cannot be prepared: %w", b.Name, err)
	}
	if b.Copy != nil {
		return nil
	}
	if m.holder, err = overlay.Start(launcher, b.mountName(), []string{b.Base}, b.Layer(),
		filepath.Join(b.dir, workDir), m.lock); err != nil {
		return &NoOverlayError{fmt.Errorf("the branch %s cannot be mounted: %w", b.Name, err)}
	}
	if m.root, err = m.holder.Clone(); err != nil {
		m.holder.Close()
		return fmt.Errorf("the branch %s cannot be used: %w", b.Name, err)
	}
	return nil
}

// Clone returns a detached mount of a branch for one process. The caller must close the file.
func (m *Mounts) Clone(key string) (*os.File, error) {
	mount := m.mountOf(key)
	if mount == nil || mount.holder == nil {
		return nil, ErrNotMounted
	}
	mount.ask.Lock()
	defer mount.ask.Unlock()
	return mount.holder.Clone()
}

// Layer returns the directory in the layer of a mounted branch that corresponds to a path of the base. It returns "" if
// the branch is not mounted.
func (m *Mounts) Layer(key, path string) string {
	mount := m.mountOf(key)
	if mount == nil || mount.holder == nil {
		return ""
	}
	rel, err := filepath.Rel(mount.Branch.Base, path)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.Join(mount.Branch.Layer(), rel)
}

func (m *Mounts) mountOf(key string) *Mount {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, _, _ := strings.Cut(key, "#")
	if mount := m.by[id]; mount != nil && mount.Key == key {
		return mount
	}
	return nil
}

// Refresh makes all processes of the branch see the current base. Without it, the kernel can show the old content of
// files that were replaced in the base.
func (m *Mount) Refresh() error {
	if err := m.Branch.check(); err != nil {
		return err // fail, because the overlay still shows the directory that was moved or unmounted
	}
	m.ask.Lock()
	defer m.ask.Unlock()
	now, names := m.base.Read()
	switch {
	case m.holder == nil:
		paths, all := m.base.Since(m.refreshed)
		if err := m.Branch.work.Follow(paths, all); err != nil {
			return err
		}
	case names > m.refreshed:
		if err := m.holder.Refresh(); err != nil {
			return err
		}
	}
	m.refreshed = now
	return nil
}

// Refresh is like [Mount.Refresh] for the branch with the given key. It does nothing if the branch is not mounted.
func (m *Mounts) Refresh(key string) error {
	if mount := m.mountOf(key); mount != nil && mount.holder != nil {
		return mount.Refresh()
	}
	return nil
}

// Changes returns the changes in the base of a mounted branch after the position since. It also returns the position up
// to which the processes of the branch see the changes. Position 0 precedes all changes.
func (m *Mounts) Changes(key string, since uint64) (i tool.Invalidation, now uint64) {
	mount := m.mountOf(key)
	if mount == nil || mount.holder == nil {
		return tool.Invalidation{}, since // not mounted, or a copy, of which the kernel itself reports all changes
	}
	mount.ask.Lock()
	defer mount.ask.Unlock()
	i.Paths, i.All = mount.base.Since(basewatch.Position(since))
	return i, uint64(mount.refreshed)
}

// Release unmounts a branch that no call uses, so that another process can use it. It first ends the processes of the
// branch. It returns false if calls use the branch, or if a checkpoint or a restore uses it.
func (m *Mounts) Release(id string) bool { return m.ReleaseFor(id, 0) }

// ReleaseFor is like Release for a caller whose own calls use the branch. The argument "own" is the number of these
// calls.
func (m *Mounts) ReleaseFor(id string, own int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	mount := m.by[id]
	if mount == nil {
		return true
	}
	if mount.users > own || mount.held { // a person can request a checkpoint or a restore without a call
		return false
	}
	m.unmount(mount)
	return true
}

// unmount ends the branch's processes and unmounts the branch. The mutex must be locked.
func (m *Mounts) unmount(mount *Mount) {
	delete(m.by, mount.Branch.ID())
	if m.End != nil {
		m.End(mount.Key)
	}
	if mount.base.users--; mount.base.users == 0 {
		delete(m.watches, mount.Branch.Base)
		mount.base.Close()
	}
	mount.stop()
}

// stop unmounts the branch and releases its lock. The descriptor of the view stays reserved but refers to /dev/null.
// Thus a path of the view never leads to another file.
func (m *Mount) stop() {
	if m.holder != nil {
		dead, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = filetree.DuplicateTo(dead, int(m.root.Fd()))
			_ = unix.Close(dead)
		}
		m.holder.Close()
	}
	m.Usage()
	m.ancestry.Close()
	if d, err := os.Open(m.Branch.Layer()); err == nil {
		if filetree.SyncAll(int(d.Fd())) == nil {
			m.Branch.Boot = ""
			_ = m.Branch.save() // ignore the error: Boot then stays set, as after a kill
		}
		_ = d.Close()
	}
	_ = m.lock.Close()
}

// Sessions returns the key of a mounted branch and the sessions that used the mount. The key is empty if the branch is
// not mounted.
func (m *Mounts) Sessions(id string) (key string, sessions []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mount := m.by[id]; mount != nil {
		return mount.Key, slices.Sorted(maps.Keys(mount.by))
	}
	return "", nil
}

// Close unmounts all branches. Call it after all processes of the branches have ended.
func (m *Mounts) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for id, mount := range m.by {
		for mount.held {
			m.free.Wait()
		}
		if m.by[id] == mount { // a restore that fails unmounts its branch itself
			m.unmount(mount)
		}
	}
}

// Probe checks whether branches of a workspace can be made. For overlays, it mounts a branch and removes it again. For
// copies, it makes no copy, but only checks whether a copy is possible and whether it would share its data with the
// workspace.
func (s *Store) Probe(launcher, workspace string, how Backend) (shared bool, err error) {
	if _, err := os.Stat(s.Dir); errors.Is(err, fs.ErrNotExist) {
		defer os.Remove(s.Dir) //nolint:errcheck // a probe leaves nothing; it fails if a branch was made meanwhile
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return false, fmt.Errorf("the directory of branches cannot be created: %w", err)
	}
	dir, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return false, fmt.Errorf("the directory of branches cannot be used: %w", err)
	}
	defer filetree.RemoveAll(dir) //nolint:errcheck // Clean removes what is left
	var base unix.Stat_t
	if err := unix.Stat(workspace, &base); err != nil {
		return false, err
	}
	if err := s.suits(workspace, &base, how); err != nil {
		return false, err
	}
	if how.Copy {
		return filetree.SharesData(workspace, dir), nil
	}
	b := &Branch{Name: "probe", Base: workspace, Device: uint64(base.Dev), Inode: base.Ino, dir: dir} //nolint:unconvert // not all systems have 64 bits here
	if err := b.fill(how); err != nil {
		return false, err
	}
	m := &Mounts{Launcher: func() (string, error) { return launcher, nil }}
	defer m.Close()
	_, release, err := m.Acquire(b, "")
	if err == nil {
		release()
	}
	return false, err
}
