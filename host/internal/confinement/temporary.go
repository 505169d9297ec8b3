package confinement

import (
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/sandbox"
	"toolhost.dev/host/internal/scratch"
)

// Temporary returns the temporary directory dir of a session as a plugin sees it. If the plugin is nil, the result is
// the directory as most plugins see it. A sandbox with a private root shows the directory at [scratch.Path], unless the
// session has this path as a root. Other processes use the path of the host.
func (l *Launcher) Temporary(p *config.Plugin, roots []tool.Root, dir string) tool.Root {
	out := tool.Root{Path: dir, Source: dir, Writable: l.cfg.Sandbox.Workspace != "read-only"}
	var backend sandbox.Backend = sandbox.None{}
	if p != nil {
		backend, _, _ = l.Choose(p, roots) // ignore the error: the plugin does not run
	} else if l.cfg.Sandbox.Enforce != "off" {
		backend, _ = l.Kernel().Choose(l.cfg.Sandbox.Backend)
	}
	taken := func(r tool.Root) bool { return r.Contains(scratch.Path) }
	if backend != nil && backend.Abilities().OwnRoot && !slices.ContainsFunc(roots, taken) {
		out.Path = scratch.Path
	}
	return out
}
