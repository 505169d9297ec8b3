package confine

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// base is the directory in which the new root is assembled. It can hide an existing directory, because all files for
// the new root are already open.
const base = "/tmp"

// place is one entry of the new root.
type place struct {
	path  string
	write bool
	// If the field "scratch" is true, the entry is an empty directory in memory. If the field "link" is set, the entry
	// is a symbolic link. Otherwise, the field "fd" is a detached copy of a mount. It is the mount at the path "source"
	// if this field is set, or at the path of the entry.
	scratch bool
	source  string
	link    string
	fd      int
	dir     bool
	device  bool
	// If the field "own" is true, the entry gets a separate mount even if another entry already contains its path with
	// enough rights.
	own bool
	// If the field "direct" is true, the path must contain no symbolic link.
	direct bool
}

// enterRoot creates the new root and changes to it. The process must be in its own mount namespace and have all
// capabilities in its user namespace.
func enterRoot(p *Policy) error {
	if p.OwnNetwork() {
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("the loopback device cannot be started: %w", err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("the mounts cannot be made private: %w", err)
	}
	if err := cover(p.Branches); err != nil {
		return err
	}
	places, err := gather(p)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4m"); err != nil {
		return fmt.Errorf("the new root cannot be made: %w", err)
	}
	if err := putAll(p, places); err != nil {
		return err
	}
	if err := mountProc(p); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if p.StartProcesses {
		if err := mountTerminals(); err != nil {
			return fmt.Errorf("/dev/pts: %w", err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(base, "dev", name)); err != nil {
			return err
		}
	}
	if err := os.Chdir(base); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("the old root cannot be unmounted: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := applyMasks(p.MaskDir, p.Masks); err != nil {
		return fmt.Errorf("a path cannot be masked: %w", err)
	}
	if err := restrictExecution(p); err != nil {
		return fmt.Errorf("the programs that can be executed cannot be restricted: %w", err)
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// putAll creates all entries in the new root.
func putAll(p *Policy, places []place) error {
	var tmp *shared
	for i := range places {
		pl := &places[i]
		put := pl.put
		if tmp.contains(pl.path) {
			put = func(size uint64) error { return tmp.put(pl, size) }
		}
		if err := put(p.TmpBytes); err != nil {
			return fmt.Errorf("%s: %w", pl.path, err)
		}
		if pl.source != "" {
			tmp = newShared(pl.fd)
		}
	}
	return tmp.finish(!p.SharedReadOnly)
}

// gather opens all files and directories for the new root. It returns parent directories before their content.
func gather(p *Policy) ([]place, error) {
	var all []place
	for _, s := range append(slices.Clone(p.Scratch), "/dev") {
		pl := place{path: s, scratch: true, write: s != "/dev", fd: -1}
		if s == SharedAt && p.Shared != "" {
			pl.scratch, pl.dir, pl.source = false, true, p.Shared
		}
		all = append(all, pl)
	}
	for _, l := range []struct {
		paths []string
		place
	}{{p.Read, place{}}, {p.Direct, place{direct: true}}, {maskDirs(p), place{}}, {p.Run, place{}},
		{p.Write, place{write: true}}, {p.Devices, place{write: true, device: true}},
		{p.Fixed, place{write: true, own: true}}, {p.Protected, place{own: true}}} {
		for _, path := range l.paths {
			if path == "/" {
				return nil, errors.New("the whole file system cannot be a root inside of another")
			}
			if strings.HasPrefix(path, "/proc") && (len(path) == 5 || path[5] == '/') {
				continue // mountProc mounts /proc
			}
			pl := l.place
			pl.path, pl.fd = path, -1
			for _, f := range pl.follow() {
				if p.ABI > 0 && !f.write && strings.HasPrefix(f.path, "/etc/") {
					// Mount all of /etc, because one mount is faster than forty mounts of single files. Landlock
					// restricts the access to single files.
					f = place{path: "/etc", dir: true, fd: -1}
				}
				all = append(all, f)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b place) int { return strings.Compare(a.path, b.path) })
	var out []place
	for _, pl := range all {
		if !pl.own && covered(out, pl) || pl.own && !within(out, pl.path) {
			continue
		}
		if !pl.scratch && pl.link == "" {
			fd, err := pl.open()
			if pl.direct &&
				(errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s cannot be mounted in the new root: %w", pl.path, err)
			}
			pl.fd = fd
		}
		out = append(out, pl)
	}
	return out, nil
}

// open returns a detached copy of the mount of an entry.
func (pl *place) open() (int, error) {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
	if !pl.direct {
		return unix.OpenTree(unix.AT_FDCWD, cmp.Or(pl.source, pl.path), flags)
	}
	at, err := openDirect(pl.path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at) //nolint:errcheck // only a path
	return unix.OpenTree(at, "", flags|unix.AT_EMPTY_PATH)
}

func openDirect(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
}

// maskDirs returns a list with the directory of the masks, or nil if the policy has no masks.
func maskDirs(p *Policy) []string {
	if p.MaskDir == "" {
		return nil
	}
	return []string{p.MaskDir}
}

// follow returns the symbolic links in the path of an entry, followed by the entry with its path resolved. It returns
// nil if the path does not exist.
func (pl place) follow() []place {
	var out []place
	at, rest := "/", strings.Split(pl.path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		st, err := os.Lstat(next)
		if err != nil {
			return nil
		}
		if st.Mode()&os.ModeSymlink == 0 {
			at, pl.dir = next, st.IsDir()
			continue
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > 40 || pl.direct {
			return nil
		}
		out = append(out, place{path: next, link: to, fd: -1})
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	pl.path = at
	return append(out, pl)
}

// covered reports whether one of the entries already contains the path of pl with the required rights.
func covered(there []place, pl place) bool {
	for _, t := range slices.Backward(there) {
		if t.path == pl.path && (t.write || !pl.write) {
			return true
		}
		if strings.HasPrefix(pl.path, t.path+"/") {
			return !t.scratch && t.source == "" && t.link == "" && (t.write || !pl.write)
		}
	}
	return false
}

// within reports whether the innermost entry that contains path is writable.
func within(there []place, path string) bool {
	for _, t := range slices.Backward(there) {
		if t.path == path || strings.HasPrefix(path, t.path+"/") {
			return t.write
		}
	}
	return false
}

// put creates the entry in the new root. The argument "size" limits a scratch directory, in bytes. Zero means no limit.
func (pl *place) put(size uint64) error {
	at := base + pl.path
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil { //nolint:gosec // a directory in a root of its own
		return err
	}
	switch {
	case pl.link != "":
		err := os.Symlink(pl.link, at)
		if errors.Is(err, os.ErrExist) {
			return nil // an earlier entry contains the link
		}
		return err
	case pl.scratch:
		if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // as above
			return err
		}
		if !pl.write {
			return nil
		}
		return mountMemory(at, size)
	case pl.dir:
		if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // as above
			return err
		}
	default:
		if f, err := os.OpenFile(at, os.O_CREATE|os.O_RDONLY, 0o600); err == nil {
			_ = f.Close()
		}
	}
	if err := unix.MoveMount(pl.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("the mount failed: %w", err)
	}
	return pl.restrict()
}

// mountMemory mounts a directory in memory. The argument "size" limits it, in bytes. Zero means no limit.
func mountMemory(at string, size uint64) error {
	return unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d", size))
}

// restrict removes rights from the mount of the entry, and closes the entry's descriptor.
func (pl *place) restrict() error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !pl.device {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if !pl.write {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(pl.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("the mount cannot be restricted: %w", err)
	}
	if pl.source != "" { // later entries need the descriptor
		return nil
	}
	return unix.Close(pl.fd)
}

// mountProc mounts /proc in the new root. With a private process namespace, /proc shows only the plugin's processes.
// Otherwise /proc shows all processes of the host, and Landlock protects their memory and descriptors.
func mountProc(p *Policy) error {
	at := base + "/proc"
	fd := -1
	if !p.PrivateProcesses {
		var err error
		if fd, err = unix.OpenTree(unix.AT_FDCWD, "/proc",
			unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // a directory in a root of its own
		return err
	}
	if p.PrivateProcesses {
		if err := unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return err
		}
		if err := limitProcesses(p); err != nil {
			return err
		}
	} else if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	// Mount /proc read-only, because root could otherwise change the kernel's settings in /proc/sys.
	return unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC,
	})
}

// leastProcessIDs is the smallest range of process ids. When the ids of a namespace wrap around, the kernel does not
// reuse ids below 300. With a smaller range, shells would confuse new processes with their own earlier processes, and
// forks would fail although few processes run.
const leastProcessIDs = 4096

// mostProcessIDs is the largest range of process ids that the kernel accepts.
const mostProcessIDs = 4 << 20

// limitProcesses limits the process ids of root's namespace, because other limits do not apply to root. It does nothing
// if a cgroup limits the processes. It also does nothing before Linux 6.14, because the setting would change the whole
// machine.
func limitProcesses(p *Policy) error {
	if p.Limits.Processes == 0 || len(p.Join) > 0 || os.Getuid() != 0 || !kernelAtLeast(6, 14) {
		return nil
	}
	return os.WriteFile(base+"/proc/sys/kernel/pid_max",
		strconv.AppendUint(nil, min(max(p.Limits.Processes, leastProcessIDs), mostProcessIDs), 10), 0)
}

// kernelAtLeast reports whether the version of the kernel is at least major.minor.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

// mountTerminals mounts a private /dev/pts, so that commands can open terminals.
func mountTerminals() error {
	if err := os.Mkdir(base+"/dev/pts", 0o755); err != nil { //nolint:gosec // a directory in a root of its own
		return err
	}
	if err := unix.Mount("devpts", base+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=620"); err != nil {
		return err
	}
	return os.Symlink("pts/ptmx", base+"/dev/ptmx")
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
