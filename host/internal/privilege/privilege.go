// Package privilege determines what a configuration permits, and whether a new one increases the privileges of tools.
// Most callers want [Increases].
//
// [Settings] returns the effective configuration with the origins of its values, and [DiffSettings] compares two of
// them. [Rules] returns the permission rules. [MissingGrants] returns the reason why a plugin cannot run, and
// [GrantsOf] compares the permissions that it needs with those that the configuration grants.
package privilege

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
)

// comparison collects the additional privileges in a new configuration.
type comparison struct {
	old, now *config.Config
	out      []string
}

// Increases returns the additional privileges in a new configuration, each as a clause without a full stop. It compares
// sandbox, network, programs, permissions, limits, hooks and trust, but not time limits. A new plugin is an increase if
// it can do more than use files in the roots. Increases ignores unregistered plugins, because they stay unregistered.
func Increases(old, now *config.Config, unregistered map[string]bool) []string {
	c := &comparison{old: old, now: now}
	c.sandbox(old.Sandbox, now.Sandbox)
	for i := range now.Plugins {
		p := &now.Plugins[i]
		if unregistered[p.Name] {
			continue
		}
		if was := old.Plugin(p.Name); was != nil {
			c.plugin(was, p)
		} else {
			c.newPlugin(p)
		}
	}
	for _, name := range old.Off {
		c.when(!slices.Contains(now.Off, name) && now.Plugin(name) != nil && !unregistered[name],
			"the plugin %s is no longer turned off", name)
	}
	c.permissions(old.Permissions, now.Permissions)
	c.hooks()
	c.principals(old.Access, now.Access)
	c.out = append(c.out, config.Increases(old, now)...)
	return c.out
}

func (c *comparison) when(increase bool, format string, a ...any) {
	if increase {
		c.out = append(c.out, fmt.Sprintf(format, a...))
	}
}

// ranked compares a setting with ordered values. The parameter "order" lists the values and begins with
// the most permissive value.
func (c *comparison) ranked(name, old, now string, order ...string) {
	c.when(slices.Index(order, now) < slices.Index(order, old), "%s was %s and is %s", name, old, now)
}

// limit compares a numeric limit. Zero means no limit.
func (c *comparison) limit(name string, old, now uint64) {
	switch {
	case old != 0 && now == 0:
		c.when(true, "%s was %d and is unlimited", name, old)
	case old != 0 && now > old:
		c.when(true, "%s was %d and is %d", name, old, now)
	}
}

func (c *comparison) sandbox(old, now config.Sandbox) {
	for _, r := range now.Roots {
		i := slices.IndexFunc(old.Roots, func(o config.Root) bool { return o.Path == r.Path })
		switch {
		case i < 0 && r.Writable:
			c.when(true, "tools may read and write in %s", r.Path)
		case i < 0:
			c.when(true, "tools may read in %s", r.Path)
		default:
			c.when(r.Writable && !old.Roots[i].Writable, "tools may write in %s", r.Path)
		}
	}
	c.when(len(old.Allow) > 0 && len(now.Allow) == 0, "paths no longer have to match sandbox.allow")
	if added := config.Lost(config.Lost(now.Allow, old.Allow), []string{nowhere}); len(old.Allow) > 0 &&
		len(added) > 0 {
		c.when(true, "sandbox.allow has %s", strings.Join(added, ", "))
	}
}

func (c *comparison) plugin(old, now *config.Plugin) {
	name := "plugin " + now.Name
	if old.Confinement.Enforce != now.Confinement.Enforce {
		c.ranked("enforce of "+name, confinement.Enforce(c.old, old), confinement.Enforce(c.now, now), "off",
			"auto", "require")
	}
	a, b := confinement.Profile(old), confinement.Profile(now)
	c.when(!a.WriteRoots && b.WriteRoots, "%s may write in writable roots", name)
	c.when(a.NoRoots && !b.NoRoots, "%s may read in the roots", name)
	c.when(!a.WriteGit && b.WriteGit, "%s may write the hooks and settings of repositories", name)
	c.when(!a.StartProcesses && b.StartProcesses, "%s may start programs", name)
	c.network(name, old, now)
	for _, glob := range config.Lost(now.Calls, old.Calls) {
		c.when(true, "%s may call %s", name, glob)
	}
	for _, l := range []struct {
		what     string
		old, now []string
	}{{"read", a.Read, b.Read}, {"write", a.Write, b.Write}, {"run", a.Run, b.Run}} {
		for _, path := range config.Lost(l.now, l.old) {
			c.when(true, "%s may %s %s", name, l.what, path)
		}
	}
	for _, l := range limits {
		c.limit("the limit "+l.what+" of "+name, l.value(&a), l.value(&b))
	}
	c.limit("the limit cpu of "+name, a.Limits.CPU, b.Limits.CPU)
	x, y := a.Total, b.Total
	c.when(x.CPUs != 0 && (y.CPUs == 0 || y.CPUs > x.CPUs), "the limit cpus of %s in all was %g and is %g (0 means none)", name, x.CPUs, y.CPUs)
}

// network compares the hosts that a plugin can reach.
func (c *comparison) network(name string, old, now *config.Plugin) {
	a, b := confinement.Profile(old), confinement.Profile(now)
	switch added := config.Lost(b.Hosts, a.Hosts); {
	case a.Network:
	case b.Network:
		c.when(true, "%s reaches the network", name)
	case len(added) > 0:
		c.when(true, "%s reaches %s", name, strings.Join(added, ", "))
	}
}

func (c *comparison) newPlugin(p *config.Plugin) {
	none := *p
	no := false
	none.Confinement, none.Calls = config.Confinement{Exec: &no, Network: &no}, nil
	c.plugin(&none, p)
}

func (c *comparison) permissions(old, now config.Permissions) {
	c.when(old.AllowList && !now.AllowList && !now.Programs.Listed, "commands that no rule allows may run")
	left := old.Policy == "listed" && now.Policy != "listed" // the message about the policy includes its lists
	c.when(!left && old.Programs.Listed && !now.Programs.Listed && !now.AllowList,
		"programs that are not listed may run")
	for _, l := range []struct {
		name     string
		old, now []string
	}{
		{"programs.deny", old.Programs.Deny, now.Programs.Deny}, {"programs.ask", old.Programs.Ask, now.Programs.Ask},
		{"paths.deny", old.Paths.Deny, now.Paths.Deny}, {"paths.protect", old.Paths.Protect, now.Paths.Protect},
	} {
		gone := config.Lost(l.old, l.now)
		c.when(len(gone) > 0 && (!left || l.name != "programs.ask"), "permissions.%s lacks %s", l.name, some(gone))
	}
	listed := old.Programs.Listed || old.AllowList
	if free := !listed && cmp.Or(old.Default, "allow") == "allow"; !free || now.Policy != "listed" { // a list adds no permission if everything was permitted before
		added := config.Lost(now.Programs.Allow, old.Programs.Allow)
		c.when(len(added) > 0, "permissions.programs.allow has %s", some(added))
	}
	added := config.Lost(now.Programs.Ask, old.Programs.Ask)
	c.when(listed && len(added) > 0, "permissions.programs.ask has %s", some(added))
	for i := range old.Rules {
		r := &old.Rules[i]
		if r.Effect == "allow" || r.List {
			continue
		}
		is := find(now.Rules, r)
		c.when(is == nil, "the rule %s %q was removed", r.Effect, r.Name)
		c.when(is != nil && !is.Same(r), "the rule %s %q changed", r.Effect, r.Name)
	}
	for i := range old.Project {
		r := &old.Project[i]
		is := find(now.Project, r)
		c.when(is == nil || !is.Same(r), "the project's rule %s %q was removed or changed", r.Effect, r.Name)
	}
	for i := range now.Rules {
		r := &now.Rules[i]
		if was := find(old.Rules, r); !r.List && lowers(r, listed) && (was == nil || !was.Same(r)) {
			c.when(true, "the rule %s %q is new or changed", r.Effect, r.Name)
		}
	}
}

// some joins a list for a message. It shows the first entries of a long list and the number of the other
// entries.
func some(list []string) string {
	const shown = 20
	if len(list) <= shown {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:shown], ", "), len(list)-shown)
}

// lowers reports whether a rule can permit calls that are refused without it. Such a rule is an allow rule, or an ask
// rule that overrides a built-in rule or the denial of unlisted programs.
func lowers(r *config.PermissionRule, listed bool) bool {
	return r.Effect == "allow" || r.Effect == "ask" && (len(r.Builtins) > 0 || listed && len(r.Commands) > 0)
}

func (c *comparison) hooks() {
	for _, h := range c.old.Hooks {
		i := slices.IndexFunc(c.now.Hooks, func(o config.Hook) bool { return o.Name == h.Name })
		if i < 0 {
			c.when(true, "the hook %q was removed", h.Name)
			continue
		}
		c.when(!h.Equal(c.now.Hooks[i]), "the hook %q changed", h.Name)
	}
}
