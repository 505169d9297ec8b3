package confinement

import (
	"context"
	"slices"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/execgate"
)

// pluginConfinement is the confinement of one plugin.
type pluginConfinement struct {
	l       *Launcher
	p       *config.Plugin
	mounted bool
}

// Confinement returns what the sandbox of a plugin does for the plugin's calls. The argument "mounted" reports whether
// the plugin is a mounted server.
func (l *Launcher) Confinement(p *config.Plugin, mounted bool) call.Confinement {
	return &pluginConfinement{l, p, mounted}
}

// Watch implements [call.Confinement].
func (c *pluginConfinement) Watch(owner string, roots []tool.Root) (after func() []string, err error) {
	return c.l.watch(c.p, owner, roots)
}

// Programs implements [call.Confinement].
func (c *pluginConfinement) Programs(ctx context.Context, owner string, roots []tool.Root, token string,
	judge execgate.Judge) *execgate.Call {
	return c.l.programs(ctx, c.p, owner, roots, token, judge)
}

// Gated implements [call.Confinement].
func (c *pluginConfinement) Gated(roots []tool.Root) bool { return c.l.Gated(c.p, roots) }

// Temporary implements [call.Confinement]. All calls of a session share one process of a mounted server, because the
// server can keep a state in memory. So this process sees the directory of no session.
func (c *pluginConfinement) Temporary(now tool.Root) tool.Root {
	switch {
	case c.mounted:
		return tool.Root{}
	case now.Path != now.Source:
		return c.l.Temporary(c.p, nil, now.Source)
	}
	return now
}

// TemporaryLimit implements [call.Confinement].
func (c *pluginConfinement) TemporaryLimit() uint64 { return Profile(c.p).Temporary }

// Denied implements [call.Confinement].
func (c *pluginConfinement) Denied(roots []tool.Root, since time.Time, printed string) []string {
	return c.l.denied(c.p, roots, since, printed)
}

// Exceeded implements [call.Confinement].
func (c *pluginConfinement) Exceeded(roots []tool.Root, printed string, failed bool) []string {
	return c.l.exceeded(c.p, roots, printed, failed)
}

// Hint implements [call.Confinement].
func (c *pluginConfinement) Hint(roots []tool.Root, e call.Ended) string {
	return c.l.hint(c.p, roots, e)
}

// Weaker implements [call.Confinement].
func (c *pluginConfinement) Weaker(roots []tool.Root) string { return c.l.weaker(c.p, roots) }

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
