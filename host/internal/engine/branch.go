package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/branch"
	"toolhost.dev/host/internal/call"
)

// The method "openBranches" prepares the branches of the state directory. A host without a state directory supports no branches.
func (e *Engine) openBranches() {
	if e.home.Root == "" {
		return
	}
	e.branches.Store = &branch.Store{Dir: e.home.Branches()}
	e.branches.End = e.super.EndBranch
	e.branches.Launcher = func() (string, error) {
		l := e.Current().Launcher
		return l.Kernel().Launcher, l.Branchable()
	}
}

// branchOf returns the name of the branch in which a request runs. Empty means the workspace itself.
func (e *Engine) branchOf(req Request, session string) (string, error) {
	name := req.Branch
	if name == "" {
		switch e.Current().Config.Workspace.Mode {
		case "branch":
			sum := sha256.Sum256([]byte(session))
			name = "session-" + hex.EncodeToString(sum[:4])
		case "require":
			return "", tool.Errorf(tool.PermissionDenied, "The configuration requires that every session works in a branch (workspace { mode = \"require\" }), and this call names none. Name one, for example toolhost run --branch NAME, or \"branch\" in the request.")
		}
	}
	if name == "" {
		return "", nil
	}
	if err := branch.CheckName(name); err != nil {
		return "", tool.Errorf(tool.InvalidArguments, "%w.", err)
	}
	if e.branches.Store == nil {
		return "", tool.Errorf(tool.Unavailable, "Branches need a state directory, and this host has none. See the problems in toolhost status.")
	}
	return name, nil
}

// The method "mounted" returns the session of a request, with its branch mounted. The caller must call release once the
// request has ended.
func (e *Engine) mounted(req Request) (s call.Session, release func(), err error) {
	s, err = e.stored(req)
	if err != nil || s.Branch == "" {
		return s, func() {}, err
	}
	b, err := e.branches.Store.Make(s.Principal.Owner(), s.Workspace, s.Branch)
	if err != nil {
		return s, nil, tool.Errorf(tool.Unavailable, "%w.", err)
	}
	mount, release, err := e.branches.Acquire(b, s.ID)
	if err != nil {
		return s, nil, tool.Errorf(tool.Unavailable, "%w.", err)
	}
	s.Mount = call.Mount{Key: mount.Key, View: mount.View()}
	s.Roots = inBranch(s.Roots, s)
	s.Prepare = func() error {
		if err := mount.Refresh(); err != nil {
			return fmt.Errorf("the branch %s cannot be brought up to date: %w", s.Branch, err)
		}
		return nil
	}
	return s, release, nil
}

// inBranch returns the roots of a session in a branch. The branch covers the workspace. Other roots are read-only, because
// a change of them could not be taken back with the branch.
func inBranch(roots []tool.Root, s call.Session) []tool.Root {
	if s.Mount.Key == "" {
		return roots
	}
	workspace := tool.Root{Path: s.Workspace}
	out := slices.Clone(roots)
	for i := range out {
		if rel, in := workspace.Rel(out[i].Path); in {
			out[i].Branch, out[i].View = s.Mount.Key, filepath.Join(s.Mount.View, rel)
		} else {
			out[i].Writable = false
		}
	}
	return out
}

// ReleaseBranch unmounts the branch of a request. See host.Host.ReleaseBranch.
func (e *Engine) ReleaseBranch(req Request) error {
	s, err := e.stored(req)
	if err != nil || s.Branch == "" {
		return err
	}
	b, err := e.branches.Store.Find(s.Principal.Owner(), s.Workspace, s.Branch)
	if err == nil && !e.branches.Release(b.ID()) {
		err = errBusy
	}
	return err
}

var errBusy = fmt.Errorf("the process %d runs a call in the branch. Wait until the call ends, or cancel it", os.Getpid())
