package deadline

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Now returns the time since boot.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("deadline: the kernel has no CLOCK_BOOTTIME: " + err.Error()) // cannot happen since Linux 2.6.39
	}
	return time.Duration(t.Nano())
}

// Guard is the host's side of a watcher. It is safe for concurrent use.
type Guard struct {
	page   []byte
	cmd    *exec.Cmd
	mu     sync.Mutex // permits only one request at a time
	socket int
	dead   chan struct{} // closed when the watcher has ended
	closed atomic.Bool
}

// Start starts a watcher. The argument "program" is the path of the launcher. The watcher keeps the file "keep" open
// for as long as a guarded process can run. The function "lost" is called if the watcher ends without a request.
func Start(program string, keep *os.File, lost func()) (*Guard, error) {
	fd, err := unix.MemfdCreate("deadline", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("the shared memory of the deadline watcher cannot be created: %w", err)
	}
	page := os.NewFile(uintptr(fd), "deadline")
	defer page.Close() //nolint:errcheck // it stays mapped
	if err := page.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, err
	}
	mapped, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(mapped))
	}
	theirs := os.NewFile(uintptr(pair[1]), "watcher")
	defer theirs.Close() //nolint:errcheck // the watcher has it
	g := &Guard{page: mapped, socket: pair[0], dead: make(chan struct{}), cmd: exec.Command(program, Arg)}
	g.cmd.ExtraFiles, g.cmd.Stderr, g.cmd.Dir = []*os.File{theirs, page, keep}, os.Stderr, "/"
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the interrupt of a terminal must not end the watcher before the host
	g.cmd.Env = []string{"GOMAXPROCS=1"}
	if err := g.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("the watcher of the lease cannot be started: %w", err), unix.Close(pair[0]), unix.Munmap(mapped))
	}
	go func() {
		_ = g.cmd.Wait()
		close(g.dead)
		if !g.closed.Load() {
			lost()
		}
	}()
	return g, nil
}

func deadlineOf(page []byte) *atomic.Int64 {
	return (*atomic.Int64)(unsafe.Pointer(&page[0]))
}

// Extend sets the end of the lease. The argument "end" is a time since boot.
func (g *Guard) Extend(end time.Duration) { deadlineOf(g.page).Store(int64(end - margin)) }

// Process adds a process to the guarded processes. The host must not have waited for the process yet. If Process
// returns an error, the caller must kill the process.
func (g *Guard) Process(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("the process cannot be guarded: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // the watcher has it
	answer, err := g.ask('p', unix.UnixRights(fd))
	if err == nil && answer != 'k' {
		err = errors.New("the lease of this node has ended")
	}
	return err
}

// Expire kills all guarded processes immediately. It returns after they were killed.
func (g *Guard) Expire() error {
	deadlineOf(g.page).Store(1)
	_, err := g.ask('e', nil)
	return err
}

func (g *Guard) ask(what byte, rights []byte) (answer byte, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := unix.Sendmsg(g.socket, []byte{what}, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return 0, fmt.Errorf("the watcher of the lease does not run: %w", err)
	}
	var b [1]byte
	for {
		n, err := unix.Read(g.socket, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("the watcher of the lease does not answer: %w", err)
		case n == 0:
			return 0, errors.New("the watcher of the lease has ended")
		}
		return b[0], nil
	}
}

// PID returns the process id of the watcher.
func (g *Guard) PID() int { return g.cmd.Process.Pid }

// Close ends the watcher, which kills all guarded processes.
func (g *Guard) Close() error {
	if g.closed.Swap(true) {
		return nil
	}
	g.mu.Lock()
	err := unix.Close(g.socket)
	g.mu.Unlock()
	<-g.dead
	return err // the page stays mapped, because a renewal can still write to it
}
