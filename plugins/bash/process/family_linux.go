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

// family is what this process knows of its children. There is one: orphans come to
// the process, and waiting for children concerns all of it.
var family = &children{trees: make(map[int]*Tree), look: make(chan os.Signal, 1)}

type children struct {
	look chan os.Signal // SIGCHLD, or a call to reap
	// starting is held from a fork until the child is in trees, and by who takes unknown children
	// for orphans. A command that runs waits for nobody's start. It is taken before mu.
	starting sync.Mutex
	mu       sync.Mutex
	// trees by the process id of their command, until no process of them is left.
	trees map[int]*Tree
	// running counts the trees whose command has not been waited for, without those
	// that are idle.
	running int
}

var adopt sync.Once

// reapOrphans makes this process the parent of its descendants' orphans, and has it
// wait for them.
func reapOrphans() {
	adopt.Do(func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		signal.Notify(family.look, syscall.SIGCHLD)
		go func() {
			for range family.look {
				// A burst of deaths is one look at /proc, and the death of a command does not
				// have one between its end and its result.
				time.Sleep(20 * time.Millisecond)
				family.reap()
			}
		}()
	})
}

// attributes of a command's process. The death signal depends on the thread that
// starts it; see Keeper.launch.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// first reports whether this is the process's first thread.
func first() bool { return unix.Gettid() == self }

// punctual has what this thread starts be woken from sleep as any program is: the plugin
// itself was started with leave to be woken later (ADR 27). The unit is ns.
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

// woken notes that t's command begins now.
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

// waited notes that t's command has ended and was waited for.
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

// reap waits for the orphans that have ended and forgets the trees that are gone.
func (c *children) reap() {
	defer c.still()()
	if !c.forget() {
		c.tidy()
	}
}

// still keeps the children from changing, by starts or otherwise, until the function that it
// gives is called.
func (c *children) still() (release func()) {
	c.starting.Lock()
	c.mu.Lock()
	return func() {
		c.mu.Unlock()
		c.starting.Unlock()
	}
}

// forget forgets the trees that are gone if that can be told without a look at all
// processes.
func (c *children) forget() bool {
	if !c.childless() { // every orphan would be a child of ours
		return false
	}
	maps.DeleteFunc(c.trees, func(_ int, t *Tree) bool {
		t.gone = t.ended
		return t.ended
	})
	return true
}

// tidy is reap for who holds [children.still].
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

// orphan reports whether p is a child that came to us, not one that we started: a
// command is in trees until it was waited for, and children that other code in this
// process starts are in our own session.
func (c *children) orphan(p stat) bool {
	if p.ppid != self || p.sid == selfSession() {
		return false
	}
	t := c.trees[p.pid]
	return t == nil || t.ended
}

// childless reports whether it is certain that no orphan is a child of ours: then no command that
// has ended has left anything.
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

// of returns the keeper's trees.
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

// Over says that the command has waited for all that it started, if it did start something, and has
// only to end. It reports whether it is certain that nothing else is left: no process has lost its parent, and
// none has the command for its parent without its knowing. Then Alive does not give the command any more.
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

// ending reports whether nothing is left of the tree but a command that has only to end.
func (t *Tree) ending() bool { return t.over && !t.ended }

// Alive returns the processes of the tree that run, after waiting for those of them
// that have ended.
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
		if p.state != 'Z' { // its parent is not us and has not waited for it
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// left reports whether anything of the tree is left, and whether its absence is
// certain: without any child there is no orphan either.
func (t *Tree) left() (left, certain bool) {
	if len(t.Alive()) > 0 {
		return true, false
	}
	family.mu.Lock()
	defer family.mu.Unlock()
	return !t.ended, family.running == 0 && family.childless()
}

// signal sends SIGKILL, or SIGTERM, to all of the tree.
func (t *Tree) signal(kill bool) {
	sig := unix.SIGTERM
	if kill {
		sig = unix.SIGKILL
	}
	family.mu.Lock()
	if !t.ended {
		_ = unix.Kill(-t.pid, sig) // at once, before any of it can fork
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

// kin returns the processes that belong to t, and, when they can come from no other
// command, the orphans younger than t that nothing else tells where they belong.
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

// strays returns the orphans, with their descendants, that belong to no tree.
func (c *children) strays(procs []stat) []stat {
	claimed := make(map[int]bool)
	for _, t := range c.trees {
		if t.idle {
			continue // it is itself all there is of it, and no orphan
		}
		for _, p := range t.members(procs) {
			claimed[p.pid] = true
		}
	}
	return descend(procs, func(p stat) bool { return c.orphan(p) && !claimed[p.pid] })
}

// endStrays kills, when no tree is left, the orphans that belong to no command.
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
