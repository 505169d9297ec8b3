package confinement

import (
	"errors"
	"fmt"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/confine"
)

// branchable returns an error if a plugin would change the workspace directly although its session works in a branch. A
// branch is visible only in a sandbox with a private root.
func (l *Launcher) branchable(p *config.Plugin, backend sandbox.Backend, roots []tool.Root) error {
	for _, r := range roots {
		if r.View != "" && !backend.Abilities().OwnRoot {
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

// Confines reports whether the sandbox prevents commands from accessing files outside of their roots.
func (l *Launcher) Confines() bool {
	backend, _ := l.Kernel().Choose(l.cfg.Sandbox.Backend)
	return l.cfg.Sandbox.Enforce != "off" && backend.Abilities().Confines
}

// ConfinesPlugin reports whether the sandbox prevents the processes of one plugin from accessing files outside of their
// roots.
func (l *Launcher) ConfinesPlugin(name string) bool {
	return l.Confines() && !slices.ContainsFunc(l.cfg.Plugins, func(p config.Plugin) bool {
		return p.Name == name && Enforce(l.cfg, &p) == "off"
	})
}

// EndsAll returns an error if processes of a tool can survive when the host kills the plugin.
func (l *Launcher) EndsAll() error {
	if l.cfg.Sandbox.Enforce == "off" {
		return errors.New("the sandbox is off: sandbox { enforce = \"off\" }")
	}
	switch backend, err := l.Kernel().Choose(l.cfg.Sandbox.Backend); {
	case backend.Abilities().PrivateProcesses:
		return nil
	case err != nil:
		return fmt.Errorf("the sandbox is %q: %w", backend.Name(), err)
	default:
		return fmt.Errorf("the sandbox is %q", backend.Name())
	}
}

// branches adds the branches among the roots to a policy. Starting the process closes the mounts in the policy.
func (l *Launcher) branches(policy *confine.Policy, roots []tool.Root) error {
	for _, r := range roots {
		covered := slices.ContainsFunc(policy.Branches, func(b confine.Branch) bool {
			return (tool.Root{Path: b.Path}).Contains(r.Path)
		})
		if r.View == "" || covered { // the workspace comes first, and its branch contains the roots inside the workspace
			continue
		}
		mount, err := l.parts.Branches(r.Branch)
		if err != nil {
			for _, m := range policy.Mounts {
				_ = m.Close()
			}
			return fmt.Errorf("the branch cannot be mounted: %w", err)
		}
		policy.Branches, policy.Mounts = append(policy.Branches, confine.Branch{Path: r.Path}),
			append(policy.Mounts, mount)
	}
	return nil
}

// inCopies returns paths in the copies among the roots. For each path in the original of a copy, the result contains
// the corresponding path in the copy.
func inCopies(all []string, roots []tool.Root) (out []string) {
	for _, path := range all {
		if at, copied := scratch.Copied(roots, path); copied {
			out = append(out, at)
		}
	}
	return out
}
