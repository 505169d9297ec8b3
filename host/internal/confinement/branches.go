package confinement

import (
	"fmt"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/sandbox"
	"toolhost.dev/host/internal/sandbox/confine"
)

// branchable returns an error if a plugin would change the workspace itself in place of a branch. Only a sandbox with a
// root of its own can show a branch.
func (l *Launcher) branchable(p *config.Plugin, backend sandbox.Backend, roots []tool.Root) error {
	for _, r := range roots {
		if r.Branch != "" && !backend.Abilities().OwnRoot {
			return tool.Errorf(tool.Unavailable, "The plugin %s cannot work in a branch, because its sandbox is %q (%s), and a branch needs the sandbox backend \"ns\". Work without a branch, or change the sandbox. See toolhost doctor.", p.Name, backend.Name(), backend.Summary())
		}
	}
	return nil
}

// Branchable returns the reason why sessions cannot have branches on this machine, or nil.
func (l *Launcher) Branchable() error {
	if l.cfg.Sandbox.Enforce == "off" {
		return fmt.Errorf("branches need the sandbox, which sandbox { enforce = \"off\" } turns off")
	}
	backend, why := l.Kernel().Choose(l.cfg.Sandbox.Backend)
	switch {
	case backend.Abilities().OwnRoot:
		return nil
	case why != nil:
		return fmt.Errorf("branches need the sandbox backend \"ns\": %w", why)
	}
	return fmt.Errorf("branches need the sandbox backend \"ns\", and the configuration sets %q", backend.Name())
}

// branches adds the branches among the roots to a policy. Starting the process closes the mounts.
func (l *Launcher) branches(policy *confine.Policy, roots []tool.Root) error {
	for _, r := range roots {
		covered := slices.ContainsFunc(policy.Branches, func(b confine.Branch) bool { return (tool.Root{Path: b.Path}).Contains(r.Path) })
		if r.Branch == "" || covered { // the workspace comes first, and its branch contains all roots in it
			continue
		}
		mount, err := l.parts.Branches(r.Branch)
		if err != nil {
			for _, m := range policy.Mounts {
				_ = m.Close()
			}
			return fmt.Errorf("the branch cannot be mounted: %w", err)
		}
		policy.Branches, policy.Mounts = append(policy.Branches, confine.Branch{Path: r.Path}), append(policy.Mounts, mount)
	}
	return nil
}
