package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// MarkEnv is the environment variable that marks the processes of a command.
const MarkEnv = "TOOLHOST_TREE"

// ErrClosed means that [Keeper.Close] was called before the start of the command.
var ErrClosed = errors.New("process: the keeper is closed")

// Keeper starts commands and tracks each process tree until its last process has ended. Use [NewKeeper] to create a
// Keeper.
type Keeper struct {
	prefix  string
	serial  atomic.Uint64
	starts  chan func()
	stopped chan struct{}
	mu      sync.RWMutex // locked for reading while a command starts, and for writing by Close
	closed  bool
	guard   *guard // nil if no guard runs
}

// NewKeeper returns a keeper. The keeper occupies a thread until Close.
func NewKeeper() *Keeper {
	k := &Keeper{
		prefix: fmt.Sprintf("%d-%x-", os.Getpid(), time.Now().UnixNano()),
		starts: make(chan func()), stopped: make(chan struct{}),
	}
	reapOrphans()
	go k.launch()
	return k
}

// launch starts all commands on one thread, which lives as long as the keeper. When the thread that started a command
// ends, the kernel sends the parent-death signal to the command, even if the process continues. The first thread is
// unsuitable, because the kernel makes it the parent of orphans. A command that is being started on the first thread
// could not be distinguished from an orphan.
func (k *Keeper) launch() {
	runtime.LockOSThread() // the thread is never unlocked, so it ends together with the goroutine
	if first() {
		go k.launch() // start again on another thread, because the locked goroutine occupies this thread
		<-k.stopped
		runtime.UnlockOSThread()
		return
	}
	punctual()
	defer close(k.stopped)
	for start := range k.starts {
		start()
	}
}

// Start starts cmd as the leader of its own session. It adds a mark to cmd.Env, which must not be nil, and sets
// cmd.SysProcAttr. The caller must call neither cmd.Wait nor cmd.Process.Wait.
func (k *Keeper) Start(cmd *exec.Cmd) (*Tree, error) { return k.start(cmd, false) }

// StartIdle starts a command that must wait, without starting processes, until [Tree.Wake] is called.
func (k *Keeper) StartIdle(cmd *exec.Cmd) (*Tree, error) { return k.start(cmd, true) }

func (k *Keeper) start(cmd *exec.Cmd, idle bool) (*Tree, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.closed {
		return nil, ErrClosed
	}
	t := &Tree{keeper: k, idle: idle, mark: fmt.Sprintf("%s=%s%d", MarkEnv, k.prefix, k.serial.Add(1)),
		done: make(chan struct{})}
	cmd.Env = append(cmd.Env, t.mark)
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	k.starts <- func() { started <- family.start(cmd, t) }
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		// If the command's streams are files, cmd.Wait waits only for the process.
		t.err = cmd.Wait()
		t.state = cmd.ProcessState
		family.waited(t)
		close(t.done)
	}()
	return t, nil
}

// Close kills all processes of all commands, including commands that have ended. It waits until no such process
// exists. It can be called several times.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	k.closed = true
	trees := family.treesOf(k)
	slices.SortFunc(trees, func(a, b *Tree) int { return a.pid - b.pid })
	var all sync.WaitGroup
	for _, t := range trees {
		all.Go(func() { t.Kill(0) })
	}
	all.Wait()
	family.endStrays()
	k.guard.dismiss()
	close(k.starts)
	<-k.stopped
}

// Tree is a command together with all processes that it has started.
type Tree struct {
	keeper *Keeper
	mark   string // the mark in the environment, in the form NAME=VALUE
	pid    int
	birth  uint64 // start time of the process; it differs if another process gets the same process id
	done   chan struct{}
	since  uint64 // time at which the command began: birth, or the time of Wake
	ended  bool   // true if the command was waited for; guarded by family.mu
	idle   bool   // true if the command waits for Wake; guarded by family.mu
	gone   bool   // true if the tree certainly has no processes; guarded by family.mu
	over   bool   // true if only the command is left and is about to exit; guarded by family.mu

	// The following fields are set before the channel "done" is closed.
	state *os.ProcessState
	err   error
}

// Wake records that a command of [Keeper.StartIdle] is about to begin. It must be called before the caller lets the
// command begin.
func (t *Tree) Wake() { family.woken(t) }

// Abandon kills a command for which Wake was never called, and waits for its end.
func (t *Tree) Abandon() {
	family.mu.Lock()
	if !t.ended {
		_ = unix.Kill(t.pid, unix.SIGKILL)
	}
	family.mu.Unlock()
	<-t.done
}

// Done returns a channel that is closed when the command has ended. Other processes of the tree can still run.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Pid returns the process id of the command. The command's session and process group have the same id.
func (t *Tree) Pid() int { return t.pid }

// State returns the exit state of the command, or nil if the wait failed; see [Tree.Err]. It must be called only after
// Done.
func (t *Tree) State() *os.ProcessState { return t.state }

// Err returns the error of the wait for the command. It must be called only after Done.
func (t *Tree) Err() error { return t.err }

// killPatience limits the duration of Kill. A process in an uninterruptible system call dies only when that call
// returns.
const killPatience = 3 * time.Second

// Kill sends SIGTERM to all processes of the tree. After the duration "grace", it sends SIGKILL to the remaining
// processes. It returns when no process is left or after killPatience.
func (t *Tree) Kill(grace time.Duration) {
	var look sighting
	if grace > 0 {
		t.signal(false)
		for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if look.gone(t) {
				return
			}
		}
	}
	pause := time.Millisecond
	for end := time.Now().Add(killPatience); time.Now().Before(end); {
		t.signal(true)
		if look.gone(t) {
			return
		}
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

// sighting counts consecutive scans that found no process of a tree. One scan is not enough, because a process can
// start during the scan. If the parent of the new process ends before the scan reads it, the scan misses the new
// process.
type sighting int

func (s *sighting) gone(t *Tree) bool {
	left, certain := t.left()
	if left {
		*s = 0
		return false
	}
	*s++
	return certain || *s >= 5
}
