// Package roots computes the roots of sessions. Roots are the directories that tools can access. Most callers want
// [Sets.Of].
package roots

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
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

// Configured returns the existing roots that a configuration defines for a workspace. The workspace is the first root.
func Configured(cfg *config.Config, workspace string) []tool.Root {
	roots := []tool.Root{{Path: workspace, Writable: cfg.Sandbox.Workspace != "read-only"}}
	for _, r := range cfg.Sandbox.Roots {
		if path, err := filepath.EvalSymlinks(r.Path); err == nil && path != workspace {
			roots = append(roots, tool.Root{Path: path, Writable: r.Writable})
		}
	}
	return roots
}

// Sets holds the roots of each workspace under one configuration. It is safe for concurrent use.
type Sets struct {
	cfg    *config.Config
	output func(plugin string) string

	mu      sync.Mutex
	by      map[string][]tool.Root // roots by workspace
	outputs map[string]bool        // by plugin; true if the output directory exists
}

// New returns the sets of a configuration. output returns the directory of a plugin's output files, which all tools can
// read, or "".
func New(cfg *config.Config, output func(plugin string) string) *Sets {
	return &Sets{cfg: cfg, output: output, by: make(map[string][]tool.Root), outputs: make(map[string]bool)}
}

// Of returns the roots of a workspace. The caller must not modify the slice. If refresh is true, Of checks again whether
// output directories exist. The check takes a system call per plugin, and few calls use such a directory.
func (s *Sets) Of(workspace string, refresh bool) []tool.Root {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refresh {
		clear(s.outputs)
		delete(s.by, workspace)
	}
	roots := s.by[workspace]
	if roots == nil {
		roots = s.find(workspace)
		s.by[workspace] = roots
	}
	return roots
}

func (s *Sets) find(workspace string) []tool.Root {
	roots := Configured(s.cfg, workspace)
	for i := range s.cfg.Plugins {
		p := s.cfg.Plugins[i].Name
		dir := s.output(p)
		exists, known := s.outputs[p]
		if !known {
			exists = dir != "" && IsDir(dir)
			s.outputs[p] = exists
		}
		if exists {
			roots = append(roots, tool.Root{Path: dir})
		}
	}
	return roots
}

// Forget clears the cached configured roots. It must be called after a call that can create or remove a root.
func (s *Sets) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.by)
}
