package process

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// family manages the children of this process. It is global, because adopting orphans and waiting for children
// concern the whole process.
var family = &children{trees: make(map[int]*Tree), look: make(chan os.Signal, 1)}

type children struct {
	look chan os.Signal // receives SIGCHLD and requests to reap children
	// starting is a mutex that is locked from a fork until the child is in the map "trees". It is also locked while
	// unknown children are treated as orphans. The methods for running commands do not lock it, so they never wait for
	// the start of another command. Lock "starting" before "mu".
	starting sync.Mutex
	mu       sync.Mutex
	// trees maps the process ids of commands to their process trees. A tree is removed when its last process has
	// ended.
	trees map[int]*Tree
	// running counts the trees whose command has not yet ended. Idle trees are not counted.
	running int
}

var adopt sync.Once

// reapOrphans makes this process the parent of orphaned descendants. It also starts a goroutine that reaps them.
func reapOrphans() {
	adopt.Do(func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		signal.Notify(family.look, syscall.SIGCHLD)
		go func() {
			for range family.look {
				// The pause combines many SIGCHLD signals into one scan of /proc. It also delays the scan until the
				// result of the command has been sent.
				time.Sleep(20 * time.Millisecond)
				family.reap()
			}
		}()
	})
}

// attributes returns the process attributes of a command. The parent-death signal depends on the thread that starts
// the command; see Keeper.launch.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// first reports whether the caller runs on the first thread of the process.
func first() bool { return unix.Gettid() == self }

// punctual sets the default timer slack, in ns, for programs that this thread starts. The host has set a higher
// value for the plugin (ADR 7).
func punctual() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 50_000, 0, 0, 0) }

func (c *children) start(cmd *exec.Cmd, t *Tree) error {
	c.starting.Lock()
	defer c.starting.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	t.pid = cmd.Process.Pid
	if s, err := readStat(t.pid); err == nil {
		t.birth, t.since = s.birth, s.birth
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trees[t.pid] = t
	if !t.idle {
		c.running++
	}
	return nil
}

// woken records that the idle command of t begins to run.
func (c *children) woken(t *Tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.idle {
		return
	}
	t.idle, t.since = false, max(t.birth, ticks())
	if !t.ended {
		c.running++
	}
}

// waited records that the command of t has ended and that this process has reaped it.
func (c *children) waited(t *Tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.ended = true
	if t.idle {
		delete(c.trees, t.pid)
		return
	}
	c.running--
	if c.forget() {
		return
	}
	select {
	case c.look <- syscall.SIGCHLD:
	default:
	}
}

// reap waits for all ended orphans. It also removes the trees that have no processes.
func (c *children) reap() {
	defer c.still()()
	if !c.forget() {
		c.tidy()
	}
}

// still locks the children: no child can start or change until the caller calls release.
func (c *children) still() (release func()) {
	c.starting.Lock()
	c.mu.Lock()
	return func() {
		c.mu.Unlock()
		c.starting.Unlock()
	}
}

// forget tries to remove the trees that have no processes. It does not scan /proc. It reports whether it succeeded.
func (c *children) forget() bool {
	if !c.childless() { // a process without children has no orphans either
		return false
	}
	maps.DeleteFunc(c.trees, func(_ int, t *Tree) bool {
		t.gone = t.ended
		return t.ended
	})
	return true
}

// tidy implements reap and returns the live processes. The caller must hold the lock of [children.still].
func (c *children) tidy() []stat {
	procs := snapshot()
	live := procs[:0]
	for _, p := range procs {
		if p.state == 'Z' && c.orphan(p) {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
			continue
		}
		live = append(live, p)
	}
	for pid, t := range c.trees {
		if t.ended && len(t.members(live)) == 0 {
			delete(c.trees, pid)
		}
	}
	return live
}

// orphan reports whether p is an adopted child that this process did not start. Running commands of this process are in
// the map "trees". All other children that this process started are in the session of this process.
func (c *children) orphan(p stat) bool {
	if p.ppid != self || p.sid == selfSession() {
		return false
	}
	t := c.trees[p.pid]
	return t == nil || t.ended
}

// childless reports whether this process certainly has no orphans. If it has none, no ended command has left a
// process running.
func (c *children) childless() bool {
	if pids, err := adopted(); err == nil {
		return len(pids) == 0
	}
	return !haveChildren()
}

func haveChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !errors.Is(err, unix.ECHILD)
}

// treesOf returns the trees of the commands that a keeper started.
func (c *children) treesOf(k *Keeper) []*Tree {
	c.mu.Lock()
	defer c.mu.Unlock()
	var mine []*Tree
	for _, t := range c.trees {
		if t.keeper == k {
			mine = append(mine, t)
		}
	}
	return mine
}

// Over reports whether the command is certainly the only remaining process of the tree. The caller must know that the
// command has already waited for all of its child processes and is about to exit. The argument "started" means that the
// command has started processes. If Over returns true, Alive no longer returns the command.
func (t *Tree) Over(started bool) bool {
	if started {
		children, err := readFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", t.pid))
		if err != nil || len(children) > 0 {
			return false
		}
	}
	family.mu.Lock()
	defer family.mu.Unlock()
	t.over = family.childless()
	return t.over
}

// ending reports whether the command is the only remaining process of the tree and is about to exit.
func (t *Tree) ending() bool { return t.over && !t.ended }

// Alive reaps the ended processes of the tree and returns the process ids of the running ones.
func (t *Tree) Alive() []int {
	family.mu.Lock()
	none := t.gone || t.ending() || t.ended && family.childless()
	family.mu.Unlock()
	if none {
		return nil
	}
	defer family.still()()
	var pids []int
	for _, p := range family.kin(t, family.tidy()) {
		if p.state != 'Z' { // skip a zombie, because only its own parent can wait for it
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// left reports whether any process of the tree still exists. The result "certain" is false if a process could
// have escaped the scan. If this process has no children, the result is always certain, because orphans would be its
// children.
func (t *Tree) left() (left, certain bool) {
	if len(t.Alive()) > 0 {
		return true, false
	}
	defer family.still()()
	if len(family.kin(t, family.orphans())) > 0 {
		return true, false // the scan missed an orphan, or an orphan that has ended can have started another process
	}
	return !t.ended, family.running == 0 && family.childless()
}

// orphans returns the adopted children of this process, except running commands. It reads only these children, which is
// faster than a scan of /proc. Because the function is fast, it is much more likely to find a process that starts
// another process and then ends at once. The caller must hold the lock of [children.still].
func (c *children) orphans() (procs []stat) {
	pids, err := adopted()
	if err != nil {
		return nil // without this list, the scans of /proc must suffice
	}
	for _, pid := range pids {
		if p, err := readStat(pid); err == nil && c.orphan(p) {
			procs = append(procs, p)
		}
	}
	return procs
}

// signal sends SIGTERM to all processes of the tree, or SIGKILL if kill is set.
func (t *Tree) signal(kill bool) {
	sig := unix.SIGTERM
	if kill {
		sig = unix.SIGKILL
	}
	family.mu.Lock()
	if !t.ended {
		_ = unix.Kill(-t.pid, sig) // signal the process group first, so that its processes cannot fork
	}
	family.mu.Unlock()
	defer family.still()()
	end := func(procs []stat) {
		for _, p := range family.kin(t, procs) {
			if t.ended || p.group != t.pid {
				_ = unix.Kill(p.pid, sig)
			}
		}
	}
	if kill {
		end(family.orphans()) // end the orphans before they start other processes
	}
	end(snapshot())
}

// kin returns the processes of t. It adds the orphans that no command owns and that started after t, unless another
// command could have started them.
func (c *children) kin(t *Tree, procs []stat) []stat {
	found := t.members(procs)
	for _, other := range c.trees {
		if other != t && !other.idle && !other.ending() && (!other.ended || other.since >= t.since) {
			return found
		}
	}
	known := make(map[int]bool)
	for _, p := range found {
		known[p.pid] = true
	}
	for _, s := range c.strays(procs) {
		if s.birth >= t.since && !known[s.pid] {
			found = append(found, s)
		}
	}
	return found
}

// strays returns the orphans without a tree and the descendants of these orphans.
func (c *children) strays(procs []stat) []stat {
	claimed := make(map[int]bool)
	for _, t := range c.trees {
		if t.idle {
			continue // skip an idle tree: its only process is the command, which is not an orphan
		}
		for _, p := range t.members(procs) {
			claimed[p.pid] = true
		}
	}
	return descend(procs, func(p stat) bool { return c.orphan(p) && !claimed[p.pid] })
}

// endStrays kills the orphans that belong to no command. While a tree exists, it does nothing.
func (c *children) endStrays() {
	for end := time.Now().Add(killPatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		release := c.still()
		var strays []stat
		if len(c.trees) == 0 && !c.childless() {
			strays = c.strays(c.tidy())
		}
		release()
		if len(strays) == 0 {
			return
		}
		for _, p := range strays {
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
	}
}
