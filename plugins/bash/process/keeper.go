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

// MarkEnv names the environment variable that marks what belongs to a command.
const MarkEnv = "TOOLHOST_TREE"

// ErrClosed is given for a command that is started after [Keeper.Close].
var ErrClosed = errors.New("process: the keeper is closed")

// Keeper starts commands and keeps the trees of processes that they grow until the
// last process of each is gone. Use [NewKeeper].
type Keeper struct {
	prefix  string
	serial  atomic.Uint64
	starts  chan func()
	stopped chan struct{}
	mu      sync.RWMutex // held for reading while starting, for writing by Close
	closed  bool
	guard   *guard // nil if there is none
}

// NewKeeper makes a keeper. Its thread lives until Close.
func NewKeeper() *Keeper {
	k := &Keeper{
		prefix: fmt.Sprintf("%d-%x-", os.Getpid(), time.Now().UnixNano()),
		starts: make(chan func()), stopped: make(chan struct{}),
	}
	reapOrphans()
	go k.launch()
	return k
}

// launch runs every start on one thread that lives as long as the keeper: the
// kernel sends a command its parent-death signal when the thread that started it
// ends, not the process. It is not the thread that orphans come to, which could not be told
// from a command that is being started there.
func (k *Keeper) launch() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if first() {
		go k.launch() // on another, since this one is taken
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

// Start starts cmd as the leader of a session of its own, with a mark added to its
// environment, which must not be nil. It sets cmd.SysProcAttr; call neither
// cmd.Wait nor cmd.Process.Wait.
func (k *Keeper) Start(cmd *exec.Cmd) (*Tree, error) { return k.start(cmd, false) }

// StartIdle starts cmd as Start does, for a command that waits and starts nothing until
// [Tree.Wake] is called.
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
		// With files as its streams Wait waits for the process alone.
		t.err = cmd.Wait()
		t.state = cmd.ProcessState
		family.waited(t)
		close(t.done)
	}()
	return t, nil
}

// Close kills every process of every command, running or left behind, and waits
// until they are gone. It may be called more than once.
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

// Tree is a command and everything it started.
type Tree struct {
	keeper *Keeper
	mark   string // NAME=VALUE
	pid    int
	birth  uint64 // start time of pid, to tell it from a later process of that number
	done   chan struct{}
	since  uint64 // when its command began: its birth, or when it was woken
	ended  bool   // the command was waited for; guarded by family.mu
	idle   bool   // it waits to be woken; guarded by family.mu
	gone   bool   // it is certain that it has left nothing; guarded by family.mu
	over   bool   // it has only to end, and nothing is left of it but its command; guarded by family.mu

	// Set before done is closed.
	state *os.ProcessState
	err   error
}

// Wake says that a command of [Keeper.StartIdle] is about to begin; call it before it
// can.
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

// Done is closed when the command itself has ended.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Pid is the command's process id, and its session's and group's.
func (t *Tree) Pid() int { return t.pid }

// State is how the command ended; call it only after Done. nil: the process was
// lost, which [Tree.Err] explains.
func (t *Tree) State() *os.ProcessState { return t.state }

// Err is the error of waiting for the command; call it only after Done.
func (t *Tree) Err() error { return t.err }

// killPatience bounds how long Kill tries: a process in an uninterruptible system
// call dies only when that returns.
const killPatience = 3 * time.Second

// Kill asks every process of the tree to end, kills after grace what is still
// there, and returns when nothing is left.
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

// sighting counts how often in a row nothing of a tree was seen. A look at all
// processes takes time, and one that was born after it began can be the child of one
// that ended before it was looked at.
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
