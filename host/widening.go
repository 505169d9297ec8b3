package host

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"toolhost.dev/host/internal/config"
)

// widening gathers what one configuration lets tools do that another did not.
type widening struct {
	old, now *config.Config
	out      []string
}

// widenings says, a sentence without its end each, what now lets tools do that old did not: by
// sandbox, network, programs, permissions, limits, hooks and trust. A plugin that is new is one when it may
// do more than work on files in the roots; those that were unregistered at run time stay so. Time limits are none.
func widenings(old, now *config.Config, unregistered map[string]bool) []string {
	w := &widening{old: old, now: now}
	w.sandbox(old.Sandbox, now.Sandbox)
	for i := range now.Plugins {
		p := &now.Plugins[i]
		if unregistered[p.Name] {
			continue
		}
		if was := old.Plugin(p.Name); was != nil {
			w.plugin(was, p)
		} else {
			w.newPlugin(p)
		}
	}
	w.permissions(old.Permissions, now.Permissions)
	w.hooks()
	w.lower("on_ask", old.Host.OnAsk, now.Host.OnAsk, "allow", "prompt", "", "deny")
	w.limit("max_calls of the host", uint64(old.Host.MaxCalls), uint64(now.Host.MaxCalls))
	w.limit("max_parallel of the host", uint64(old.Host.MaxParallel), uint64(now.Host.MaxParallel))
	w.tools()
	w.when(!old.Audit.Off && now.Audit.Off, "calls are not kept in the audit log any more")
	w.when(len(lost(old.Audit.Secrets, now.Audit.Secrets)) > 0, "the audit log masks fewer secrets")
	w.when(old.Trust.Approve && !now.Trust.Approve, "tools whose definitions nobody approved of can be called")
	w.when(!old.Reload.AnyChanges && now.Reload.AnyChanges, "versions of plugins that break who uses their tools are taken over")
	w.lower("reload.widening", old.Reload.Widening, now.Reload.Widening, "allow", "explicit", "approve")
	return w.out
}

func (w *widening) when(wider bool, format string, a ...any) {
	if wider {
		w.out = append(w.out, fmt.Sprintf(format, a...))
	}
}

// lower is about a setting whose values are given from the widest to the narrowest.
func (w *widening) lower(name, old, now string, order ...string) {
	show := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return s
	}
	w.when(slices.Index(order, now) < slices.Index(order, old), "%s was %s and is %s", name, show(old), show(now))
}

// limit is about a number of which 0 is any.
func (w *widening) limit(name string, old, now uint64) {
	switch {
	case old != 0 && now == 0:
		w.when(true, "%s was %d and there is none", name, old)
	case old != 0 && now > old:
		w.when(true, "%s was %d and is %d", name, old, now)
	}
}

func lost(old, now []string) []string {
	return slices.DeleteFunc(slices.Clone(old), func(s string) bool { return slices.Contains(now, s) })
}

func (w *widening) sandbox(old, now config.Sandbox) {
	w.lower("the workspace", old.Workspace, now.Workspace, "read-write", "read-only")
	for _, r := range now.Roots {
		i := slices.IndexFunc(old.Roots, func(o config.Root) bool { return o.Path == r.Path })
		switch {
		case i < 0 && r.Writable:
			w.when(true, "tools may read and write in %s", r.Path)
		case i < 0:
			w.when(true, "tools may read in %s", r.Path)
		default:
			w.when(r.Writable && !old.Roots[i].Writable, "tools may write in %s", r.Path)
		}
	}
	w.when(old.Strict && !now.Strict, "symbolic links and \"..\" are followed")
	w.when(len(old.Allow) > 0 && len(now.Allow) == 0, "paths need not match sandbox.allow any more")
	if added := lost(now.Allow, old.Allow); len(old.Allow) > 0 && len(added) > 0 {
		w.when(true, "sandbox.allow has %s", strings.Join(added, ", "))
	}
	if gone := lost(old.Deny, now.Deny); len(gone) > 0 {
		w.when(true, "sandbox.deny lacks %s", strings.Join(gone, ", "))
	}
	w.lower("sandbox.backend", old.Backend, now.Backend, "none", "landlock", "auto", "ns")
	w.lower("sandbox.enforce", old.Enforce, now.Enforce, "off", "auto", "require")
}

func (w *widening) plugin(old, now *config.Plugin) {
	name := "plugin " + now.Name
	if old.Confinement.Enforce != now.Confinement.Enforce {
		w.lower("enforce of "+name, (&confinement{cfg: w.old}).enforce(old), (&confinement{cfg: w.now}).enforce(now), "off", "auto", "require")
	}
	a, b := profile(old), profile(now)
	w.when(!a.WriteRoots && b.WriteRoots, "%s may write in writable roots", name)
	w.when(a.NoRoots && !b.NoRoots, "%s may read in the roots", name)
	w.when(!a.WriteGit && b.WriteGit, "%s may write the hooks and settings of repositories", name)
	w.when(!a.StartProcesses && b.StartProcesses, "%s may start programs", name)
	w.network(name, old, now)
	for _, l := range []struct {
		what     string
		old, now []string
	}{{"read", a.Read, b.Read}, {"write", a.Write, b.Write}, {"run", a.Run, b.Run}} {
		for _, path := range lost(l.now, l.old) {
			w.when(true, "%s may %s %s", name, l.what, path)
		}
	}
	for _, l := range []struct {
		what     string
		old, now uint64
	}{
		{"memory", a.Limits.Memory, b.Limits.Memory}, {"processes", a.Limits.Processes, b.Limits.Processes}, {"files", a.Limits.Files, b.Limits.Files},
		{"file_size", a.Limits.FileSize, b.Limits.FileSize}, {"cpu", a.Limits.CPU, b.Limits.CPU},
	} {
		w.limit("the limit "+l.what+" of "+name, l.old, l.now)
	}
	x, y := a.Total, b.Total
	w.limit("the limit memory of "+name+" in all", x.Memory, y.Memory)
	w.limit("the limit processes of "+name+" in all", x.Processes, y.Processes)
	w.when(x.CPUs != 0 && (y.CPUs == 0 || y.CPUs > x.CPUs), "the limit cpus of %s in all was %g and is %g (0: none)", name, x.CPUs, y.CPUs)
}

// network is about what a plugin reaches.
func (w *widening) network(name string, old, now *config.Plugin) {
	a, b := profile(old), profile(now)
	switch added := lost(b.Hosts, a.Hosts); {
	case a.Network:
	case b.Network:
		w.when(true, "%s reaches the network", name)
	case len(added) > 0:
		w.when(true, "%s reaches %s", name, strings.Join(added, ", "))
	}
}

func (w *widening) newPlugin(p *config.Plugin) {
	none := *p
	no := false
	none.Confinement = config.Confinement{Exec: &no, Network: &no}
	w.plugin(&none, p)
}

func (w *widening) permissions(old, now config.Permissions) {
	w.lower("permissions.default", cmp.Or(old.Default, "allow"), cmp.Or(now.Default, "allow"), "allow", "ask", "deny")
	w.when(old.AllowList && !now.AllowList, "commands that no rule allows may run")
	w.when(!old.NoBuiltin && now.NoBuiltin, "the built-in rules do not hold any more")
	find := func(in []config.PermissionRule, r *config.PermissionRule) *config.PermissionRule {
		i := slices.IndexFunc(in, func(o config.PermissionRule) bool { return o.Effect == r.Effect && o.Name == r.Name })
		if i < 0 {
			return nil
		}
		return &in[i]
	}
	for i := range old.Rules {
		r := &old.Rules[i]
		if r.Effect == "allow" {
			continue
		}
		is := find(now.Rules, r)
		w.when(is == nil, "the rule %s %q is gone", r.Effect, r.Name)
		w.when(is != nil && !is.Same(r), "the rule %s %q is another", r.Effect, r.Name)
	}
	for i := range now.Rules {
		r := &now.Rules[i]
		if was := find(old.Rules, r); r.Effect == "allow" && (was == nil || !was.Same(r)) {
			w.when(true, "the rule allow %q is new or another", r.Name)
		}
	}
}

func (w *widening) hooks() {
	for _, h := range w.old.Hooks {
		i := slices.IndexFunc(w.now.Hooks, func(o config.Hook) bool { return o.Name == h.Name })
		if i < 0 {
			w.when(true, "the hook %q is gone", h.Name)
			continue
		}
		is := w.now.Hooks[i]
		is.Place, h.Place = "", ""
		w.when(!reflect.DeepEqual(is, h), "the hook %q is another", h.Name)
	}
}

func (w *widening) tools() {
	for _, name := range slices.Sorted(maps.Keys(w.old.Tools)) {
		old, now := w.old.Tools[name], w.now.Tools[name]
		off := old.Enabled != nil && !*old.Enabled
		w.when(off && (now.Enabled == nil || *now.Enabled), "the tool %s is not disabled any more", name)
		w.limit("max_concurrent of the tool "+name, uint64(old.MaxConcurrent), uint64(now.MaxConcurrent))
	}
	for _, name := range slices.Sorted(maps.Keys(w.now.Tools)) {
		_, was := w.old.Tools[name]
		on := w.now.Tools[name].Enabled
		w.when(!was && on != nil && *on, "the tool %s is enabled, whatever it says of itself", name)
	}
}
