package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/watch"
)

// keepsStateOut returns an error if tools in a workspace can write to the state directory, which contains the audit log,
// the remembered answers and the trust store. A nil result is cached, because tools cannot change it: they cannot write
// to any directory with a link to the state directory.
func (e *Engine) keepsStateOut(cfg *config.Config, workspace string) error {
	if e.home.Root == "" || e.places.safe(cfg, workspace) {
		return nil
	}
	dir, err := state.Dir(e.opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		dir = e.home.Root
	}
	err = stateOutside(cfg, workspace, dir, e.home.Root)
	if err == nil {
		e.places.add(cfg, workspace)
	}
	return err
}

// maxPlaces limits the number of workspaces in the cache of type places.
const maxPlaces = 1024

// The type "places" is a cache of the workspaces whose tools cannot write to the state directory. It is valid for one
// configuration.
type places struct {
	mu         sync.Mutex
	cfg        *config.Config
	workspaces map[string]bool
}

func (p *places) safe(cfg *config.Config, workspace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cfg == cfg && p.workspaces[workspace]
}

func (p *places) add(cfg *config.Config, workspace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg != cfg || len(p.workspaces) >= maxPlaces {
		p.cfg, p.workspaces = cfg, make(map[string]bool)
	}
	p.workspaces[workspace] = true
}

// stateOutside returns an error if tools in a workspace can write to the state directory dir. The path target is dir
// without symbolic links. The function also checks the links that lead to the directory, because tools could change the
// target of a link.
func stateOutside(cfg *config.Config, workspace, dir, target string) error {
	places := append(watch.Places(dir), target)
	var writable []tool.Root
	for _, r := range roots.Configured(cfg, workspace) {
		if r.Writable {
			writable = append(writable, r)
		}
	}
	for i := range cfg.Plugins {
		for _, path := range cfg.Plugins[i].Confinement.Write {
			writable = append(writable, tool.Root{Path: path})
		}
	}
	for _, r := range writable {
		if slices.ContainsFunc(places, r.Contains) {
			return fmt.Errorf("the state directory %s is in %s, where tools can write. With --state, name a directory outside of it, such as %s", target, r.Path, otherState(r))
		}
		if (tool.Root{Path: target}).Contains(r.Path) {
			return fmt.Errorf("tools could write in %s, which is in the state directory %s. Use another workspace: --workspace DIR", r.Path, target)
		}
	}
	return nil
}

// otherState returns a path for a state directory outside a root. The host suggests this path to the user.
func otherState(root tool.Root) string {
	if dir, err := state.Dir(); err == nil && !root.Contains(dir) {
		return dir
	}
	return filepath.Join("/var/tmp", fmt.Sprintf("toolhost-%d", os.Getuid()))
}

// checkOwner returns an error if other users can write to the state directory. It returns nil if the directory does not
// exist.
func checkOwner(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return nil //nolint:nilerr // it is created for this user only
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	switch mode := st.Mode().Perm(); {
	case int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("the state directory %s belongs to user %d. Use a directory of your own: --state DIR", dir, sys.Uid)
	case mode&0o002 != 0, mode&0o020 != 0 && int(sys.Gid) != os.Getegid():
		return fmt.Errorf("other users can write in the state directory %s (mode %#o). Change that with chmod go-w %[1]s, or use another one: --state DIR", dir, mode)
	}
	return nil
}

// keepsHostOut returns an error if tools of a requested workspace could write files that the host runs or reads. These
// files are the configuration, the programs in the configuration, code files in the arguments of these programs, and the
// programs of the host. The host's own workspace is checked when the configuration is opened.
func (e *Engine) keepsHostOut(cfg *config.Config, workspace string) error {
	if workspace == e.opts.Workspace || cfg.Sandbox.Workspace == "read-only" {
		return nil
	}
	for _, path := range append(e.reloader.Source.Uses(cfg), e.opts.BundledDir) {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			target = path
		}
		if root := (tool.Root{Path: workspace}); path != "" && (root.Contains(path) || root.Contains(target)) {
			return fmt.Errorf("the workspace %s contains %s, which the host uses, and tools could change it. Use another workspace, or move it elsewhere", workspace, path)
		}
	}
	return nil
}
