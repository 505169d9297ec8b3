// Package roots computes the roots of sessions. Roots are the directories that tools can access. Most callers want
// [Sets.Of].
package roots

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
)

// Workspace returns the absolute path of a workspace, with symbolic links resolved. An empty dir means the current
// directory. Workspace returns an error if the path is not a directory.
func Workspace(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("the workspace cannot be used: %w", err)
	}
	if !IsDir(abs) {
		return "", fmt.Errorf("the workspace %s is not a directory", abs)
	}
	return abs, nil
}

// IsDir reports whether path is a directory.
func IsDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// Configured returns the existing roots from the configuration for sessions of a workspace. The first root is the
// workspace. A root that is too broad is always read-only.
func Configured(cfg *config.Config, workspace string) []tool.Root {
	roots := []tool.Root{
		{Path: workspace, Writable: Refused(cfg, workspace) == nil && cfg.Sandbox.Workspace != "read-only"},
	}
	for _, r := range cfg.Sandbox.Roots {
		if path, err := filepath.EvalSymlinks(r.Path); err == nil && path != workspace {
			roots = append(roots, tool.Root{
				Path: path, Writable: r.Writable && broad(path, cfg.Sandbox.AllowRoot) == "",
			})
		}
	}
	return roots
}

// Refused returns an error if calls must not run in a workspace, because the workspace is writable and too broad. It
// returns nil if calls can run.
func Refused(cfg *config.Config, workspace string) error {
	if cfg.Sandbox.Workspace == "read-only" && !cfg.Sandbox.Narrowed {
		return nil
	}
	why := broad(workspace, cfg.Sandbox.AllowRoot)
	if why == "" {
		return nil
	}
	return fmt.Errorf("the workspace %s is %s, and tools could change everything in it. Use the directory of a project: --workspace DIR, or start there. With --read-only tools can only read. "+
		"To permit it, set sandbox { allow_root = [%q] } in your own configuration", workspace, why, workspace)
}

// Check returns an error if a configured root is writable and too broad.
func Check(cfg *config.Config) error {
	var errs []error
	for _, r := range cfg.Sandbox.Roots {
		if !r.Writable {
			continue
		}
		path, err := filepath.EvalSymlinks(r.Path)
		if err != nil {
			continue // the root does not exist now
		}
		if why := broad(path, cfg.Sandbox.AllowRoot); why != "" {
			errs = append(errs, fmt.Errorf("sandbox root %s: it is %s, and tools could change everything in it. Name a directory below it, or permit it with sandbox { allow_root = [%q] }", r.Path, why, r.Path))
		}
	}
	return errors.Join(errs...)
}

// Epoch ends when roots can have appeared or vanished. The sets of all generations share one. The zero value is ready
// for use.
type Epoch struct{ number atomic.Uint64 }

// Forget makes all sets find their roots again. It must be called after a call that can create or remove a root.
func (e *Epoch) Forget() { e.number.Add(1) }

// Sets caches the roots of all workspaces for one configuration. It is safe for concurrent use.
type Sets struct {
	cfg    *config.Config
	epoch  *Epoch
	output func(owner, plugin string) string

	mu      sync.Mutex
	found   uint64                // the epoch in which the roots were found
	by      map[place][]tool.Root // roots by owner and workspace
	refused map[string]error      // results of Refused by workspace
	outside map[string]bool       // whether Outside returned nil, by workspace
	outputs map[string]bool       // whether an output directory exists, by its path
}

// New returns the root sets for a configuration. The function "output" returns the directory for a plugin's output
// files, or "" for a plugin without one. All tools can read these directories in sessions of their owner.
func New(cfg *config.Config, epoch *Epoch, output func(owner, plugin string) string) *Sets {
	return &Sets{cfg: cfg, epoch: epoch, output: output, by: make(map[place][]tool.Root),
		refused: make(map[string]error), outside: make(map[string]bool), outputs: make(map[string]bool)}
}

// place identifies the sessions of an owner in a workspace.
type place struct{ owner, workspace string }

// Of returns the roots of an owner's sessions in a workspace. The caller must not modify the slice. If refresh is true,
// Of checks again which output directories exist. The check costs a system call for each plugin, and few calls need
// such a directory.
func (s *Sets) Of(owner, workspace string, refresh bool) []tool.Root {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.epoch.number.Load(); now != s.found {
		clear(s.by)
		s.found = now
	}
	at := place{owner, workspace}
	if refresh {
		clear(s.outputs)
		delete(s.by, at)
	}
	roots := s.by[at]
	if roots == nil {
		roots = s.find(at)
		s.by[at] = roots
	}
	return roots
}

func (s *Sets) find(at place) []tool.Root {
	roots := Configured(s.cfg, at.workspace)
	names := []string{state.ResultsDir}
	for i := range s.cfg.Plugins {
		names = append(names, s.cfg.Plugins[i].Name)
	}
	for _, name := range names {
		dir := s.output(at.owner, name)
		exists, known := s.outputs[dir]
		if !known {
			exists = dir != "" && own(dir)
			s.outputs[dir] = exists
		}
		if exists {
			roots = append(roots, tool.Root{Path: dir})
		}
	}
	return roots
}

// Refused calls the function [Refused] with the configuration of the sets and caches the result.
func (s *Sets) Refused(workspace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err, known := s.refused[workspace]
	if !known {
		err = Refused(s.cfg, workspace)
		s.refused[workspace] = err
	}
	return err
}

// maxPlaces limits the number of workspaces for which the sets cache a result of Outside.
const maxPlaces = 1024

// Outside returns an error if tools in the workspace of a request can write to the state directory, or reach a secret.
// The function "places" returns the paths of both. Outside caches a nil result, because tools cannot change it: they
// cannot write to a directory with a link that leads to one of these paths.
func (s *Sets) Outside(workspace string, places func() *Places) error {
	s.mu.Lock()
	known := s.outside[workspace]
	s.mu.Unlock()
	if known {
		return nil
	}
	p := places()
	if err := errors.Join(p.StateOutside(s.cfg, workspace), p.secretsOutside(s.cfg, workspace)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outside) >= maxPlaces {
		clear(s.outside)
	}
	s.outside[workspace] = true
	return nil
}

// own reports whether a directory below the state directory is a real directory and not a link. A plugin
// could replace the directory with a link to other files.
func own(dir string) bool {
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() { // most directories do not exist, which one system call shows
		return false
	}
	target, err := filepath.EvalSymlinks(dir)
	return err == nil && target == dir && IsDir(dir)
}
