package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/descriptor"
)

// Holder is a process that owns the mount of a branch. See [confine.Hold].
type Holder struct {
	cmd  *exec.Cmd
	conn *net.UnixConn
	done chan struct{} // closed when the process has ended
}

// holdTimeout bounds the time that a holder needs for an answer, which is a few milliseconds.
const holdTimeout = 10 * time.Second

// Start starts a holder for an overlay. The holder inherits the lock. Therefore no other process can use the layer
// before the holder has ended.
func Start(launcher, name string, lower []string, upper, work string, lock *os.File) (*Holder, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "holder"), os.NewFile(uintptr(pair[1]), "host")
	defer theirs.Close() //nolint:errcheck // the holder has its own copy
	c, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, err
	}
	conn := c.(*net.UnixConn) //nolint:forcetypeassert // that is what a Unix socket gives
	files := []*os.File{theirs, lock}
	defer func() {
		for _, f := range files[2:] {
			_ = f.Close()
		}
	}()
	number := func(path string) int {
		f, openErr := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
		if openErr != nil {
			err = errors.Join(err, openErr)
			return 0
		}
		files = append(files, f)
		return 3 + len(files) - 1
	}
	h := confine.Hold{Name: name, Socket: 3, Upper: number(upper), Work: number(work)}
	for _, path := range lower {
		h.Lower = append(h.Lower, number(path))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	out := &Holder{cmd: exec.Command(launcher), conn: conn, done: make(chan struct{})}
	out.cmd.ExtraFiles, out.cmd.Env = files, []string{}
	if err := out.start(h); err != nil {
		return nil, errors.Join(fmt.Errorf("its holder cannot be started: %w", err), conn.Close())
	}
	_ = conn.SetDeadline(time.Now().Add(holdTimeout))
	if _, err := roundTrip(conn, 0); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// start starts the process from a thread that lives as long as the process, because the kernel kills the process when
// the thread that started it ends.
func (h *Holder) start(description confine.Hold) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := sandbox.StartHolder(h.cmd, description, h.conn)
		started <- err
		if err == nil {
			_ = h.cmd.Wait()
			close(h.done)
		}
		runtime.UnlockOSThread()
	}()
	return <-started
}

// Alive reports whether the process of the holder runs.
func (h *Holder) Alive() bool {
	select {
	case <-h.done:
		return false
	default:
		return true
	}
}

func (h *Holder) request(what byte) (*os.File, error) {
	_ = h.conn.SetDeadline(time.Now().Add(holdTimeout))
	return roundTrip(h.conn, what)
}

// Clone returns a detached clone of the mount.
func (h *Holder) Clone() (*os.File, error) { return h.request(confine.HoldClone) }

// Refresh makes the kernel forget the names that it has cached for the base. The mount then shows the current names.
func (h *Holder) Refresh() error {
	_, err := h.request(confine.HoldRefresh)
	return err
}

// Close ends the holder and waits for its end.
func (h *Holder) Close() {
	_ = h.conn.Close()
	select {
	case <-h.done:
	case <-time.After(holdTimeout):
		_ = h.cmd.Process.Kill()
		<-h.done
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
	f, err := descriptor.One(oob[:ooBytes], "mount of a branch")
	if err != nil {
		return nil, errors.Join(errors.New("the process that holds the branch sent no mount"), err)
	}
	return f, nil
}

// Lingering returns the id of a process in whose mount namespace the layer is still mounted after its host was killed,
// or 0. The lock does not show this, because commands do not inherit the lock: they could release it. Lingering returns
// an error if it cannot examine a process of this user.
func Lingering(name string) (pid int, err error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	source := []byte(" - overlay " + confine.HoldSource + name + " ")
	for _, e := range all {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		mounts, err := os.ReadFile(filepath.Join("/proc", e.Name(), "mountinfo"))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL),
			errors.Is(err, fs.ErrPermission):
			continue // the process has ended or belongs to another user
		case err != nil:
			return 0, err
		case bytes.Contains(mounts, source):
			return n, nil
		}
	}
	return 0, nil
}

// BootID identifies the boot of the machine.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// ClockOffset returns the difference between the time of the machine and the time since its boot, in nanoseconds. It
// changes only if somebody sets the clock. ClockOffset returns false if the kernel does not tell.
func ClockOffset() (offset int64, known bool) {
	var now, up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &now) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return 0, false
	}
	return now.Nano() - up.Nano(), true
}

// networks contains the file systems that use the clock of another machine.
var networks = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "SMB", unix.FUSE_SUPER_MAGIC: "FUSE",
	unix.V9FS_MAGIC: "9P", unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS",
}

// Unsupported returns an error if the kernel cannot use the file system of a workspace for branches.
func Unsupported(base string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(base, &st); err != nil {
		return err
	}
	if name := networks[int64(st.Type)]; name != "" { //nolint:unconvert // not all systems have 64 bits here
		return fmt.Errorf("the workspace %s is on %s, whose times cannot be compared with those of this machine, so changes of others could be missed. Use a workspace on a local file system", base, name)
	}
	if int64(st.Type) == unix.OVERLAYFS_SUPER_MAGIC { //nolint:unconvert // as above
		return fmt.Errorf("the workspace %s and the state directory are on an overlay file system, as in a container without a volume, and the kernel does not put a layer there. Put both on a volume", base)
	}
	return nil
}
