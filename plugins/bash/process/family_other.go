//go:build unix && !linux

package process

import (
	"os/exec"
	"sync"
	"syscall"
)

// family holds the process groups of the commands that this process started.
var family = &children{trees: make(map[int]*Tree)}

type children struct {
	mu    sync.Mutex
	trees map[int]*Tree // trees by process id; a tree is removed when its process group is empty
}

func reapOrphans() {}

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func first() bool { return false }

func punctual() {}

// Over always returns false, because this system does not report the remaining processes.
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

func (c *children) endStrays() {}

// Alive returns the process group of the tree if the group contains a process. It does not find processes that left
// the group.
func (t *Tree) Alive() []int {
	if syscall.Kill(-t.pid, 0) != nil {
		return nil
	}
	return []int{t.pid}
}

// left reports whether the process group of the tree exists.
func (t *Tree) left() (left, certain bool) {
	left = len(t.Alive()) > 0
	family.mu.Lock()
	defer family.mu.Unlock()
	return left || !t.ended, true
}

// signal sends SIGTERM to the process group of the tree, or SIGKILL if kill is set.
func (t *Tree) signal(kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-t.pid, sig)
}

// Reading always returns false, because this system does not report the files that a process reads.
func (t *Tree) Reading(uint64) (fromPipe, fromTerminal bool) { return false, false }

// guard is an empty type, because this system does not support guards.
type guard struct{}

func (*guard) dismiss() {}

// Guard does nothing. On this system, a guard could not find the processes of commands.
func (k *Keeper) Guard(string) error { return nil }

// Programs always returns nil, because these systems have no common interface for listing processes.
func (t *Tree) Programs() [][]string { return nil }
