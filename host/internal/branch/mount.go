package branch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/sandbox/confine"
)

// Mounts contains the branches that this process has mounted. The zero value with a Store and a Launcher is ready to use.
type Mounts struct {
	Store *Store
	// Launcher returns the path of the program that holds mounts, or an error if branches cannot be mounted.
	Launcher func() (string, error)
	// End ends the processes of a branch before it is unmounted. It returns when they have ended.
	End func(key string)

	mu      sync.Mutex
	by      map[string]*Mount
	watches map[string]*baseWatch // by base
	last    atomic.Int64
	closed  bool
}

// Mount is a mounted branch.
type Mount struct {
	Branch *Branch
	// Key identifies this mount of the branch in this process.
	Key string

	root   *os.File // the host's own clone
	holder *holder
	lock   *os.File
	base   *baseWatch
	users  int
	by     map[string]bool // the sessions that used the mount
	ask    sync.Mutex      // one request to the holder at a time

	checkpoints sync.Mutex // one checkpoint at a time
	usage       atomic.Pointer[usage]
	ancestry    ancestry
	// refreshed is the position up to which the processes of the branch see the changes of the base. It is guarded by ask.
	refreshed position
}

// View returns a path through which this process sees the files of the branch. It is valid until the mount is released.
func (m *Mount) View() string { return "/proc/self/fd/" + strconv.Itoa(int(m.root.Fd())) }

// waitForLock is how long a branch can be in use by another process that is about to end.
const waitForLock = 2 * time.Second

// Acquire mounts a branch if it is not mounted. The caller must call release once it no longer uses the mount.
func (m *Mounts) Acquire(b *Branch, session string) (mount *Mount, release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, errors.New("the host is closing")
	}
	mount = m.by[b.ID()]
	if mount != nil && !mount.holder.alive() {
		m.unmount(mount)
		mount = nil
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

// Mounted returns a branch that this process has mounted, or nil. No other process can change the branch meanwhile.
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

// used adds a session to the sessions of the branch. It reports whether that changed the list.
func (b *Branch) used(session string) bool {
	if session == "" || slices.Contains(b.Sessions, session) || len(b.Sessions) >= maxSessions {
		return false
	}
	b.Sessions = append(b.Sessions, session)
	return true
}

func (m *Mounts) mount(b *Branch, session string) (*Mount, error) {
	launcher, err := m.Launcher()
	if err != nil {
		return nil, err
	}
	lock, err := waitLock(b)
	if err != nil {
		return nil, err
	}
	out := &Mount{Branch: b, Key: fmt.Sprintf("%s#%d", b.ID(), m.last.Add(1)), lock: lock}
	var guard Guard
	if m.Store != nil {
		guard = m.Store.Guard
	}
	if err := out.start(launcher, session, guard); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if m.by == nil {
		m.by, m.watches = make(map[string]*Mount), make(map[string]*baseWatch)
	}
	m.by[b.ID()] = out
	if out.base = m.watches[b.Base]; out.base == nil {
		out.base = watchBase(b.Base)
		m.watches[b.Base] = out.base
	}
	out.base.users++
	return out, nil
}

func waitLock(b *Branch) (*os.File, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		lock, err := b.lock()
		if used := (*InUseError)(nil); err == nil || !errors.As(err, &used) || time.Since(began) > waitForLock {
			return lock, err
		}
	}
}

// start mounts the branch, whose lock the caller has.
func (m *Mount) start(launcher, session string, guard Guard) error {
	b := m.Branch
	if err := b.check(); err != nil {
		return err
	}
	if err := b.recover(guard); err != nil {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	if b.Boot != "" && b.Boot != boot {
		return fmt.Errorf("the machine stopped while the branch %s was in use, so the files that were written last can be incomplete. Look at them with toolhost branch diff %[1]s, and then run toolhost branch accept %[1]s", b.Name)
	}
	// The kernel marks its own directory of an overlay that it does not sync, and refuses it then.
	work := filepath.Join(b.dir, workDir)
	b.Boot = boot
	b.used(session)
	// The record must be on disk before a change of the layer is. Its name can follow, because the file system keeps the order.
	if err := errors.Join(removeAll(work), os.Mkdir(work, 0o700), b.write(durable.ReplaceUnsynced)); err != nil {
		return fmt.Errorf("the branch %s cannot be prepared: %w", b.Name, err)
	}
	if m.holder, err = startHolder(launcher, b.mountName(), []string{b.Base}, b.Layer(), filepath.Join(b.dir, workDir), m.lock); err != nil {
		return fmt.Errorf("the branch %s cannot be mounted: %w", b.Name, err)
	}
	if m.root, err = m.holder.clone(); err != nil {
		m.holder.close()
		return fmt.Errorf("the branch %s cannot be used: %w", b.Name, err)
	}
	return nil
}

func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// Clone returns a detached mount of a branch for one process. The caller must close the file.
func (m *Mounts) Clone(key string) (*os.File, error) {
	mount := m.of(key)
	if mount == nil {
		return nil, errors.New("the branch is no longer mounted. Repeat the call")
	}
	mount.ask.Lock()
	defer mount.ask.Unlock()
	return mount.holder.clone()
}

// Layer returns the directory with what a mounted branch changed below a path of its base, or "" if it is not mounted.
func (m *Mounts) Layer(key, path string) string {
	mount := m.of(key)
	if mount == nil {
		return ""
	}
	rel, err := filepath.Rel(mount.Branch.Base, path)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.Join(mount.Branch.Layer(), rel)
}

func (m *Mounts) of(key string) *Mount {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, _, _ := strings.Cut(key, "#")
	if mount := m.by[id]; mount != nil && mount.Key == key {
		return mount
	}
	return nil
}

// Refresh makes all processes of the branch see what changed in the base. Otherwise the kernel shows the old content of
// files that were replaced.
func (m *Mount) Refresh() error {
	if err := m.Branch.check(); err != nil {
		return err // the overlay still shows the directory that was moved or unmounted
	}
	m.ask.Lock()
	defer m.ask.Unlock()
	now, names := m.base.read()
	if names > m.refreshed {
		if err := m.holder.refresh(); err != nil {
			return err
		}
	}
	m.refreshed = now
	return nil
}

// Changes returns what changed in the base of a mounted branch after a position, and the position up to which the processes
// of the branch see the changes. Position 0 is before all changes.
func (m *Mounts) Changes(key string, since uint64) (i tool.Invalidation, now uint64) {
	mount := m.of(key)
	if mount == nil {
		return tool.Invalidation{}, since // the processes of the branch end
	}
	mount.ask.Lock()
	defer mount.ask.Unlock()
	i.Paths, i.All = mount.base.since(position(since))
	return i, uint64(mount.refreshed)
}

// Release unmounts a branch that no call uses, so that another process can use it. It first ends the processes of the
// branch. It returns false if calls use the branch.
func (m *Mounts) Release(id string) bool { return m.ReleaseFor(id, 0) }

// ReleaseFor is like Release for a caller whose own calls use the branch. The argument own is their number.
func (m *Mounts) ReleaseFor(id string, own int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	mount := m.by[id]
	if mount == nil {
		return true
	}
	if mount.users > own {
		return false
	}
	m.unmount(mount)
	return true
}

// unmount ends all that uses the mount. The mutex must be locked.
func (m *Mounts) unmount(mount *Mount) {
	delete(m.by, mount.Branch.ID())
	if m.End != nil {
		m.End(mount.Key)
	}
	if mount.base.users--; mount.base.users == 0 {
		delete(m.watches, mount.Branch.Base)
		mount.base.close()
	}
	mount.stop()
}

// stop unmounts the branch and gives its lock back. The descriptor of the view then refers to nothing, and it stays
// reserved, so that a path of the view never leads to another file.
func (m *Mount) stop() {
	dead, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = duplicateTo(dead, int(m.root.Fd()))
		_ = unix.Close(dead)
	}
	m.holder.close()
	m.Usage()
	m.ancestry.close()
	if d, err := os.Open(m.Branch.Layer()); err == nil {
		if syncAll(int(d.Fd())) == nil {
			m.Branch.Boot = ""
			_ = m.Branch.save() // ignore the error: the next mount then repeats what a clean end saves
		}
		_ = d.Close()
	}
	_ = m.lock.Close()
}

// Sessions returns the key of a mounted branch and the sessions that used the mount. The key is empty if the branch is not
// mounted.
func (m *Mounts) Sessions(id string) (key string, sessions []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mount := m.by[id]; mount != nil {
		return mount.Key, slices.Sorted(maps.Keys(mount.by))
	}
	return "", nil
}

// Close unmounts all branches. It must be called after all processes of the branches ended.
func (m *Mounts) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, mount := range m.by {
		m.unmount(mount)
	}
}

// roundTrip sends a request to a holder and returns its answer with the descriptor in it.
func roundTrip(conn *net.UnixConn, request byte) (*os.File, error) {
	if request != 0 {
		if _, err := conn.Write([]byte{request}); err != nil {
			return nil, fmt.Errorf("the process that holds the branch has ended: %w", err)
		}
	}
	buf, oob := make([]byte, 4096), make([]byte, 64)
	n, ooBytes, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return nil, errors.Join(errors.New("the process that holds the branch has ended"), err)
	}
	if buf[0] != confine.HoldDone {
		return nil, errors.New(string(buf[1:n]))
	}
	if request != confine.HoldClone {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob[:ooBytes])
	if err != nil || len(messages) == 0 {
		return nil, errors.Join(errors.New("the process that holds the branch sent no mount"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "branch"), nil
}

// Probe mounts a branch of a workspace and removes it. It returns the reason if that does not work.
func (s *Store) Probe(launcher, workspace string) error {
	if _, err := os.Stat(s.Dir); errors.Is(err, fs.ErrNotExist) {
		defer os.Remove(s.Dir) //nolint:errcheck // a probe leaves nothing; it fails if a branch was made meanwhile
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("the directory of branches cannot be created: %w", err)
	}
	dir, err := os.MkdirTemp(s.Dir, ".new-")
	if err != nil {
		return fmt.Errorf("the directory of branches cannot be used: %w", err)
	}
	defer removeAll(dir) //nolint:errcheck // Clean removes what is left
	var base unix.Stat_t
	if err := unix.Stat(workspace, &base); err != nil {
		return err
	}
	if err := s.suits(workspace, &base); err != nil {
		return err
	}
	b := &Branch{Name: "probe", Base: workspace, Device: uint64(base.Dev), Inode: base.Ino, dir: dir} //nolint:unconvert // not all systems have 64 bits here
	if err := b.fill(&base); err != nil {
		return err
	}
	m := &Mounts{Launcher: func() (string, error) { return launcher, nil }}
	defer m.Close()
	_, release, err := m.Acquire(b, "")
	if err == nil {
		release()
	}
	return err
}
