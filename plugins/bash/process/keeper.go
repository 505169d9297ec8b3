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

// ErrClosed is returned for a command that is started after [Keeper.Close].
var ErrClosed = errors.New("process: the keeper is closed")

// Keeper starts commands and tracks their process trees until the last process of each is gone. Use [NewKeeper] to
// create one.
type Keeper struct {
	prefix  string
	serial  atomic.Uint64
	starts  chan func()
	stopped chan struct{}
	mu      sync.RWMutex // held for reading by starts, for writing by Close
	closed  bool
	guard   *guard // may be nil
}

// NewKeeper returns a keeper. It occupies a thread until Close.
func NewKeeper() *Keeper {
	k := &Keeper{
		prefix: fmt.Sprintf("%d-%x-", os.Getpid(), time.Now().UnixNano()),
		starts: make(chan func()), stopped: make(chan struct{}),
	}
	reapOrphans()
	go k.launch()
	return k
}

// launch runs every start on one thread that lives as long as the keeper. The kernel sends a command its parent death
// signal when the thread that started it ends, not the process. The first thread is unsuitable: it gets the orphans,
// which could not be distinguished from a command being started.
func (k *Keeper) launch() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if first() {
		go k.launch() // on another thread, because this one is occupied
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

// Start starts cmd as the leader of its own session and adds a mark to its environment, which must not be nil. It sets
// cmd.SysProcAttr. The caller must call neither cmd.Wait nor cmd.Process.Wait.
func (k *Keeper) Start(cmd *exec.Cmd) (*Tree, error) { return k.start(cmd, false) }

// StartIdle is Start for a command that waits, and starts nothing, until [Tree.Wake] is called.
func (k *Keeper) StartIdle(cmd *exec.Cmd) (*Tree, error) { return k.start(cmd, true) }

func (k *Keeper) start(cmd *exec.Cmd, idle bool) (*Tree, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.closed {
		return nil, ErrClosed
	}
	t := &Tree{keeper: k, idle: idle, mark: fmt.Sprintf("%s=%s%d", MarkEnv, k.prefix, k.serial.Add(1)), done: make(chan struct{})}
	cmd.Env = append(cmd.Env, t.mark)
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	k.starts <- func() { started <- family.start(cmd, t) }
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		// If the streams are files, Wait waits only for the process.
		t.err = cmd.Wait()
		t.state = cmd.ProcessState
		family.waited(t)
		close(t.done)
	}()
	return t, nil
}

// Close kills all processes of all commands, running or left behind, and waits until they are gone. It may be called
// more than once.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	k.closed = true
	trees := family.of(k)
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

// Tree is a command with all processes that it started.
type Tree struct {
	keeper *Keeper
	mark   string // NAME=VALUE
	pid    int
	birth  uint64 // start time of pid, to detect that the number was reused
	done   chan struct{}
	since  uint64 // when the command began: birth, or the time of Wake
	ended  bool   // the command was waited for; guarded by family.mu
	idle   bool   // waits for Wake; guarded by family.mu
	gone   bool   // certainly without processes; guarded by family.mu
	over   bool   // only the command is left and about to exit; guarded by family.mu

	// Set before done is closed.
	state *os.ProcessState
	err   error
}

// Wake announces that a command of [Keeper.StartIdle] is about to begin. Call it before the command can begin.
func (t *Tree) Wake() { family.woken(t) }

// Abandon kills a command that was never woken, and waits for its end.
func (t *Tree) Abandon() {
	family.mu.Lock()
	if !t.ended {
		_ = unix.Kill(t.pid, unix.SIGKILL)
	}
	family.mu.Unlock()
	<-t.done
}

// Done returns a channel that is closed when the command itself has ended.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Pid returns the process ID of the command, which is also its session and process group ID.
func (t *Tree) Pid() int { return t.pid }

// State returns the exit state of the command. Call it only after Done. It is nil if waiting failed; see [Tree.Err].
func (t *Tree) State() *os.ProcessState { return t.state }

// Err returns the error of waiting for the command. Call it only after Done.
func (t *Tree) Err() error { return t.err }

// killPatience limits the time that Kill tries. A process in an uninterruptible system call dies only when the call
// returns.
const killPatience = 3 * time.Second

// Kill sends SIGTERM to all processes of the tree, and SIGKILL to those left after grace. It returns when nothing is
// left.
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

// sighting counts consecutive scans that found no process of a tree. One scan is not sufficient: a process born during
// the scan may be the child of one that ended before it was scanned.
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
