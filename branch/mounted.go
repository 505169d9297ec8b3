package branch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch/checkpoint"
	"toolhost.dev/sandbox"
)

// Open returns the branches of a state directory. The directory must be on the file system of the workspaces, and
// outside of them. The program's own executable holds the mounts, so the program must call [sandbox.Init] at the
// beginning of main.
func Open(dir string) *Mounts {
	return &Mounts{Store: &Store{Dir: dir}, Launcher: func() (string, error) {
		kernel, err := sandbox.Self()
		if err == nil {
			err = sandbox.Namespaces{}.Unusable(&kernel)
		}
		return kernel.Launcher, err
	}}
}

// Run runs a command in a branch and waits for its end. The command has the rights of the profile. At the path of the
// workspace, it sees and writes only the files of the branch. Without cmd.Dir, it starts in the workspace. When the
// command ends, Run ends all processes that it started.
//
// In a branch of the kind "copy", the command works at the path of [Branch.Tree]. On a machine without namespaces, some
// of its processes can then continue after its end.
//
// Several commands can run in a branch at the same time. The branch stays mounted until [Mounts.Release] or
// [Mounts.Close].
func (m *Mounts) Run(cmd *exec.Cmd, b *Branch, p sandbox.Profile) error {
	mount, release, err := m.Acquire(b, "")
	if err != nil {
		return err
	}
	defer release()
	defer m.Begin(mount)()
	if err := mount.Refresh(); err != nil {
		return fmt.Errorf("the branch %s cannot be brought up to date: %w", b.Name, err)
	}
	top := mount.Branch.Tree()
	if rel, err := filepath.Rel(b.Base, cmd.Dir); err == nil && filepath.IsLocal(rel) {
		cmd.Dir = filepath.Join(top, rel)
	} else if cmd.Dir == "" {
		cmd.Dir = top
	}
	root := tool.Root{Path: top, Writable: true}
	at := sandbox.Place{Roots: []tool.Root{root}}
	if mount.holder != nil {
		f, err := m.Clone(mount.Key)
		if err != nil {
			return err
		}
		at.Mounts = map[string]*os.File{b.Base: f}
		at.OnHost = func(path string) string {
			if rel, in := root.Rel(path); in {
				return filepath.Join(mount.View(), rel)
			}
			return path
		}
	}
	if err := sandbox.Start(cmd, p, at); err != nil {
		return fmt.Errorf("the command cannot run in the branch %s: %w", b.Name, err)
	}
	return cmd.Wait()
}

// BusyError means that a branch cannot be changed now, because calls run in it.
type BusyError struct{ Name string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("other calls run in the branch %s. Wait until they end, or cancel them", e.Name)
}

// hold blocks new calls in a mounted branch until the function "release" is called. The argument "own" is the number of
// the caller's own calls in the branch. hold fails if more calls than these already run there.
func (m *Mounts) hold(id string, own int) (mount *Mount, release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mount = m.by[id]
	switch {
	case mount == nil:
		return nil, nil, ErrNotMounted
	case mount.running > own || mount.held:
		return nil, nil, &BusyError{mount.Branch.Name}
	}
	if m.free == nil {
		m.free = sync.NewCond(&m.mu)
	}
	mount.held = true
	return mount, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		mount.held = false
		m.free.Broadcast()
	}, nil
}

// ErrNotMounted means that a branch is not mounted in this process, for example because it was unmounted meanwhile.
var ErrNotMounted = errors.New("the branch is no longer mounted. Repeat the call")

// Checkpoint is like [Store.Checkpoint] for a mounted branch. The branch's jobs keep running. The argument "own" is the
// number of the caller's own calls in the branch. If other calls run in the branch, the error is a [BusyError].
func (m *Mounts) Checkpoint(id string, own int, message string, rules CheckpointRules) (*Checkpoint, error) {
	mount, release, err := m.hold(id, own)
	if err != nil {
		return nil, err
	}
	defer release()
	mount.checkpoints.Lock()
	defer mount.checkpoints.Unlock()
	c, err := mount.Branch.checkpoint(Checkpoint{Message: message}, rules)
	if err == nil {
		err = mount.Branch.sync()
	}
	return c, err
}

// Restore is like [Store.Restore] for a mounted branch, and keeps the branch's programs running. The argument "own" is
// the number of the caller's own calls in the branch. If other calls run in the branch, the error is a [BusyError].
func (m *Mounts) Restore(id string, own, number int, undo bool, rules CheckpointRules) (*Restored, error) {
	mount, release, err := m.hold(id, own)
	if err != nil {
		return nil, err
	}
	defer release()
	mount.checkpoints.Lock()
	defer mount.checkpoints.Unlock()
	b := mount.Branch
	r, out, err := b.beginRestore(number, undo, rules)
	if err != nil {
		return nil, err
	}
	failed := mount.rewrite(r)
	if failed == nil {
		return out, b.saves().End(r)
	}
	out.Ended = failed.Error()
	// The restore is incomplete. Complete it by exchanging the layers. This requires that nothing uses the branch.
	m.mu.Lock()
	if m.by[id] == mount {
		m.unmount(mount)
	}
	m.mu.Unlock()
	lock, err := waitLock(b)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	defer lock.Close() //nolint:errcheck // only a lock
	if err := b.continueRestore(); err != nil {
		return nil, errors.Join(failed, err)
	}
	return out, b.sync()
}

// rewrite restores a checkpoint in a mounted branch.
func (m *Mount) rewrite(r *checkpoint.Restore) error {
	b := m.Branch
	if m.holder != nil {
		return b.saves().Rewrite(m.View(), r)
	}
	unlock, err := b.work.Lock() // a copy has no mount that uses the layer
	if err != nil {
		return err
	}
	defer unlock()
	return b.saves().Exchange(r)
}
