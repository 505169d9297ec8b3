package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/sandbox/deadline"
)

// shared returns the shared workspaces that this node has.
func (f *Fleet) shared() (out []host.FleetWorkspace) {
	for _, w := range f.settings.Workspaces {
		if w.Shared != "" && w.Here(f.settings.Labels) {
			out = append(out, w)
		}
	}
	return out
}

// startGuard starts the watcher that kills the processes of shared workspaces when the lease ends.
func (f *Fleet) startGuard(context.Context) error {
	if len(f.shared()) == 0 || without("kill") {
		return nil
	}
	if err := f.host.EndsAll(); err != nil {
		return fmt.Errorf("a shared workspace needs a sandbox in which the host can end all processes of a tool, and %w. Run toolhost doctor to see what is missing, or remove shared from the workspaces", err)
	}
	g, err := deadline.Start(filepath.Join(f.opts.Programs, "toolhost-sandbox"), f.lock, f.guardLost)
	if err != nil {
		return err
	}
	f.guard.Store(g)
	f.host.GuardProcesses(func(pid int, roots []tool.Root) error {
		if !f.touches(roots) {
			return nil
		}
		g := f.guard.Load()
		if g == nil {
			return errors.New("the watcher of the lease does not run")
		}
		return g.Process(pid)
	})
	f.host.EndProcesses(f.touches) // the watcher does not know the processes that the host started before, to ask for their tools
	return nil
}

// touches reports whether a process that is confined to the given roots can change shared files. A process without
// roots is not confined.
func (f *Fleet) touches(roots []tool.Root) bool {
	if len(roots) == 0 {
		return true
	}
	return slices.ContainsFunc(f.shared(), func(w host.FleetWorkspace) bool {
		path := w.Path
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		return slices.ContainsFunc(roots, func(r tool.Root) bool {
			return r.Contains(path) || (tool.Root{Path: path}).Contains(r.Path)
		})
	})
}

// guardLost replaces a watcher that died. It first ends the processes of shared workspaces, because they may not run
// without a watcher.
func (f *Fleet) guardLost() {
	f.log.Error("the watcher of the lease died; the processes of shared workspaces end")
	f.guard.Store(nil)
	f.host.EndProcesses(f.touches)
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return
	}
	g, err := deadline.Start(filepath.Join(f.opts.Programs, "toolhost-sandbox"), f.lock, f.guardLost)
	if err != nil {
		f.log.Error("the watcher of the lease cannot be started, so calls of shared workspaces fail", "why", err)
		return
	}
	f.mu.Lock()
	keeper := f.lease
	f.mu.Unlock()
	if keeper != nil { // otherwise the first renewal extends it
		if left, ok := keeper.Valid(); ok {
			g.Extend(deadline.Now() + left)
		}
	}
	f.guard.Store(g)
}

// lost ends everything that could change shared files, because the lease has ended. The keeper of the lease calls it.
func (f *Fleet) lost() {
	if g := f.guard.Load(); g != nil {
		if err := g.Expire(); err != nil {
			f.log.Error("the processes of shared workspaces cannot be ended by the watcher", "why", err)
			f.host.EndProcesses(f.touches)
		}
	}
	if without("kill") {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, o := range f.owned {
		if o.shared {
			delete(f.owned, key)
			o.drop()
		}
	}
}

// controls is set by the linker in programs that tests build: -X toolhost.dev/host/fleet.controls=yes. Such a program
// leaves out the guards whose names $TOOLHOST_FLEET_WITHOUT contains, separated by commas. So a test can show that it
// notices the absence of a guard.
var controls string

// without reports whether a guard is left out. The guard "kill" ends calls and processes at the end of the lease,
// "journal" refuses records of old owners, "records" remembers the calls of earlier owners, "directory" refuses old
// entries, "once" remembers calls, and "hold" keeps calls of nodes whose connection is lost.
func without(guard string) bool {
	return controls != "" && slices.Contains(strings.Split(os.Getenv("TOOLHOST_FLEET_WITHOUT"), ","), guard)
}
