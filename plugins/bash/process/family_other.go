//go:build unix && !linux

package process

import (
	"os/exec"
	"sync"
	"syscall"
)

// family is what this process knows of its children: the process groups of the
// commands it started.
var family = &children{trees: make(map[int]*Tree)}

type children struct {
	mu    sync.Mutex
	trees map[int]*Tree // by process id, until the group is empty
}

func reapOrphans() {}

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func first() bool { return false }

func punctual() {}

// Over says that the command has waited for all that it started, and has only to end. It reports
// whether it is certain that nothing else is left, which is not known here.
func (t *Tree) Over(bool) bool { return false }

func (c *children) start(cmd *exec.Cmd, t *Tree) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	t.pid = cmd.Process.Pid
	c.trees[t.pid] = t
	return nil
}

func (c *children) waited(t *Tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.ended = true
	for pid, t := range c.trees {
		if t.ended && syscall.Kill(-pid, 0) != nil {
			delete(c.trees, pid)
		}
	}
}

func (c *children) woken(t *Tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.idle = false
}

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

func (c *children) endStrays() {}

// Alive returns the tree's process group while there is a process in it. What left
// the group is not known here.
func (t *Tree) Alive() []int {
	if syscall.Kill(-t.pid, 0) != nil {
		return nil
	}
	return []int{t.pid}
}

// left reports whether the tree's process group is there.
func (t *Tree) left() (left, certain bool) {
	left = len(t.Alive()) > 0
	family.mu.Lock()
	defer family.mu.Unlock()
	return left || !t.ended, true
}

// signal sends SIGKILL, or SIGTERM, to the tree's process group.
func (t *Tree) signal(kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-t.pid, sig)
}

// Reading is not known here.
func (t *Tree) Reading(uint64) (fromPipe, fromTerminal bool) { return false, false }

// guard is not there here.
type guard struct{}

func (*guard) dismiss() {}

// Guard does nothing here: it would not find what commands have started.
func (k *Keeper) Guard(string) error { return nil }
