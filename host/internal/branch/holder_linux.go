package branch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/sandbox"
	"toolhost.dev/host/internal/sandbox/confine"
)

// holder is a process that owns the mount of a branch. See [confine.Hold].
type holder struct {
	cmd  *exec.Cmd
	conn *net.UnixConn
	done chan struct{} // closed when the process has ended
}

// holdTimeout bounds the time that a holder needs for an answer, which is a few milliseconds.
const holdTimeout = 10 * time.Second

// startHolder starts a holder for an overlay. The holder inherits the lock, so that no other process can use the layer
// before the holder has ended.
func startHolder(launcher, name string, lower []string, upper, work string, lock *os.File) (*holder, error) {
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
	text, marshalErr := json.Marshal(h)
	if err = errors.Join(err, marshalErr); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	out := &holder{cmd: exec.Command(launcher, confine.HoldArg, string(text)), conn: conn, done: make(chan struct{})} //nolint:gosec // the program of this installation
	out.cmd.ExtraFiles, out.cmd.Env = files, []string{}
	sandbox.Holder(out.cmd)
	if err := out.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("its holder cannot be started: %w", err), conn.Close())
	}
	_ = conn.SetDeadline(time.Now().Add(holdTimeout))
	if _, err := roundTrip(conn, 0); err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

// start starts the process from a thread that lives as long as the process, because the kernel kills the process when the
// thread that started it ends.
func (h *holder) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := h.cmd.Start()
		started <- err
		if err == nil {
			_ = h.cmd.Wait()
			close(h.done)
		}
		runtime.UnlockOSThread()
	}()
	return <-started
}

func (h *holder) alive() bool {
	select {
	case <-h.done:
		return false
	default:
		return true
	}
}

func (h *holder) request(what byte) (*os.File, error) {
	_ = h.conn.SetDeadline(time.Now().Add(holdTimeout))
	return roundTrip(h.conn, what)
}

// clone returns a detached clone of the mount.
func (h *holder) clone() (*os.File, error) { return h.request(confine.HoldClone) }

func (h *holder) refresh() error {
	_, err := h.request(confine.HoldRefresh)
	return err
}

// close ends the holder and waits for its end.
func (h *holder) close() {
	_ = h.conn.Close()
	select {
	case <-h.done:
	case <-time.After(holdTimeout):
		_ = h.cmd.Process.Kill()
		<-h.done
	}
}

// lingering returns a process in which the layer is still mounted after its host was killed, or 0. The lock does not tell that,
// because commands do not inherit it: they could give it back.
func (b *Branch) lingering() (pid int) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	source := []byte(" - overlay " + confine.HoldSource + b.mountName() + " ")
	for _, e := range all {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		mounts, err := os.ReadFile(filepath.Join("/proc", e.Name(), "mountinfo"))
		if err == nil && bytes.Contains(mounts, source) {
			return n
		}
	}
	return 0
}

// networks are the file systems whose clock is not the one of this machine.
var networks = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.FUSE_SUPER_MAGIC: "FUSE",
	unix.V9FS_MAGIC: "9P", unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS",
}

// unsupported returns an error if the kernel cannot use the file system of a workspace for branches.
func unsupported(base string) error {
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
