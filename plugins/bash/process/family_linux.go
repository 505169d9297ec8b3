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

// family holds the children of this process. It is global, because orphans and wait calls concern the whole process.
var family = &children{trees: make(map[int]*Tree), look: make(chan os.Signal, 1)}

type children struct {
	look chan os.Signal // receives SIGCHLD, or a request to reap
	// starting is held from a fork until the child is in trees, and while unknown children are treated as orphans. A
	// running command never waits for the start of another. It is locked before mu.
	starting sync.Mutex
	mu       sync.Mutex
	// trees holds the trees by the process ID of their command, until their last process is gone.
	trees map[int]*Tree
	// running counts the trees whose command was not waited for, except idle ones.
	running int
}

var adopt sync.Once

// reapOrphans makes this process the parent of orphaned descendants, and starts to reap them.
func reapOrphans() {
	adopt.Do(func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		signal.Notify(family.look, syscall.SIGCHLD)
		go func() {
			for range family.look {
				// The pause combines many SIGCHLD signals into one scan of /proc. It also keeps the scan out of the time
				// between a command's end and its result.
				time.Sleep(20 * time.Millisecond)
				family.reap()
			}
		}()
	})
}

// attributes returns the attributes of a command's process. The parent death signal depends on the thread that starts
// it; see Keeper.launch.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// first reports whether the caller runs on the process's first thread.
func first() bool { return unix.Gettid() == self }

// punctual sets the default timer slack, in ns, for programs that this thread starts. The host started the plugin with a
// larger one (ADR 27).
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

// woken records that the command of t begins now.
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

// waited records that the command of t was waited for.
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

// reap waits for the ended orphans and removes the trees without processes.
func (c *children) reap() {
	defer c.still()()
	if !c.forget() {
		c.tidy()
	}
}

// still locks the children, including starts, until release is called.
func (c *children) still() (release func()) {
	c.starting.Lock()
	c.mu.Lock()
	return func() {
		c.mu.Unlock()
		c.starting.Unlock()
	}
}

// forget removes the trees without processes if no scan of /proc is needed for that. It reports whether it did.
func (c *children) forget() bool {
	if !c.childless() { // an orphan would be a child of this process
		return false
	}
	maps.DeleteFunc(c.trees, func(_ int, t *Tree) bool {
		t.gone = t.ended
		return t.ended
	})
	return true
}

// tidy implements reap. The caller must hold [children.still]. It returns the live processes.
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

// orphan reports whether p is an adopted child, and not one that this process started. A command is in trees until it
// was waited for. Children started by other code of this process are in its own session.
func (c *children) orphan(p stat) bool {
	if p.ppid != self || p.sid == selfSession() {
		return false
	}
	t := c.trees[p.pid]
	return t == nil || t.ended
}

// childless reports whether it is certain that this process has no orphans. Then no ended command has left anything
// running.
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

// of returns the trees of a keeper.
func (c *children) of(k *Keeper) []*Tree {
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

// Over reports whether it is certain that nothing but the command is left of the tree. The caller knows that the command
// has waited for all processes it started, and only has to exit. started means that it started any. If Over returns
// true, Alive no longer returns the command.
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

// ending reports whether only the command is left of the tree, and it is about to exit.
func (t *Tree) ending() bool { return t.over && !t.ended }

// Alive reaps the ended processes of the tree and returns the running ones.
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
		if p.state != 'Z' { // a zombie of another parent
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// left reports whether any process of the tree is left, and whether a negative answer is certain. It is certain if this
// process has no children, because orphans would be among them.
func (t *Tree) left() (left, certain bool) {
	if len(t.Alive()) > 0 {
		return true, false
	}
	family.mu.Lock()
	defer family.mu.Unlock()
	return !t.ended, family.running == 0 && family.childless()
}

// signal sends SIGTERM to all processes of the tree, or SIGKILL if kill is set.
func (t *Tree) signal(kill bool) {
	sig := unix.SIGTERM
	if kill {
		sig = unix.SIGKILL
	}
	family.mu.Lock()
	if !t.ended {
		_ = unix.Kill(-t.pid, sig) // before a process of the group can fork
	}
	family.mu.Unlock()
	defer family.still()()
	for _, p := range family.kin(t, snapshot()) {
		if !t.ended && p.group == t.pid {
			continue
		}
		_ = unix.Kill(p.pid, sig)
	}
}

// kin returns the processes that belong to t. If no other command can have started them, it includes unassigned orphans
// that are younger than t.
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

// strays returns the orphans that belong to no tree, with their descendants.
func (c *children) strays(procs []stat) []stat {
	claimed := make(map[int]bool)
	for _, t := range c.trees {
		if t.idle {
			continue // an idle tree is only its command, which is not an orphan
		}
		for _, p := range t.members(procs) {
			claimed[p.pid] = true
		}
	}
	return descend(procs, func(p stat) bool { return c.orphan(p) && !claimed[p.pid] })
}

// endStrays kills the orphans that belong to no command, once no tree is left.
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
