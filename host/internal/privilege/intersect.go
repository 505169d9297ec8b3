package privilege

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/sandbox"
)

// nowhere is a path that cannot exist. It replaces the empty intersection of two lists of paths, because an empty list
// would have a different meaning, for example all paths.
const nowhere = "/dev/null/nowhere"

// intersection builds the configuration in the field "out", which permits only what both the configuration "old" and
// the configuration "now" permit.
type intersection struct {
	old, now, out *config.Config
	texts         []string
}

// Intersect returns the configuration "old" without the rights that the configuration "now" removes: roots, tools,
// plugins, permissions, principals and limits. All other settings come from the configuration "old". Programs that only
// the configuration "now" names can therefore not make the result fail. A right is removed unless it is literally in
// both configurations.
//
// The list "taken" describes each removed right. It is empty if nothing was removed. The field Restricted of the result
// also contains the descriptions from earlier intersections. The result shares memory with both arguments, so the
// arguments must not change.
func Intersect(old, now *config.Config) (out *config.Config, taken []string) {
	result := *old
	x := &intersection{old: old, now: now, out: &result}
	x.sandbox()
	x.plugins()
	x.permissions()
	x.principals()
	x.texts = append(x.texts, config.Restrict(&result, now)...)
	if quotas := old.Quotas.Stricter(now.Quotas); !maps.Equal(quotas, old.Quotas) {
		result.Quotas = quotas
		x.add("the quotas are lower")
	}
	result.Restricted = union(old.Restricted, x.texts)
	return &result, x.texts
}

func (x *intersection) add(format string, a ...any) {
	x.texts = append(x.texts, fmt.Sprintf(format, a...))
}

// stricter sets a setting with ordered values to the stricter one of its current value and the value
// "now". The parameter "order" begins with the most permissive value.
func (x *intersection) stricter(name string, value *string, now string, order ...string) {
	if slices.Index(order, now) > slices.Index(order, *value) {
		*value = now
		x.add("%s is %s", name, cmp.Or(now, "not set"))
	}
}

// both sets a permission to false unless both configurations grant it.
func (x *intersection) both(value *bool, now bool, format string, a ...any) {
	if *value && !now {
		*value = false
		x.add(format, a...)
	}
}

// lower lowers a limit. Zero means no limit.
func lower[N cmp.Ordered](x *intersection, value *N, now N, name string) {
	var none N
	if now != none && (*value == none || now < *value) {
		*value = now
		x.add("%s is %v", name, now)
	}
}

// common returns the elements that are in both lists, in the order of the list a. If b contains all
// elements of a, the result is a itself, because a plugin restarts if a nil list becomes an empty list. Otherwise, the
// result is not nil.
func common(a, b []string) []string {
	if len(config.Lost(a, b)) == 0 {
		return a
	}
	out := []string{}
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// orAll returns the elements that are in both lists. A nil list stands for all elements.
func orAll(a, b []string) []string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return common(a, b)
}

// union returns the elements of both lists.
func union(a, b []string) []string { return slices.Concat(a, config.Lost(b, a)) }

func (x *intersection) sandbox() {
	s, now := &x.out.Sandbox, x.now.Sandbox
	var roots []config.Root
	for _, r := range s.Roots {
		i := slices.IndexFunc(now.Roots, func(o config.Root) bool { return o.Path == r.Path })
		if i < 0 {
			x.add("tools cannot use the root %s", r.Path)
			continue
		}
		x.both(&r.Writable, now.Roots[i].Writable, "tools cannot write in the root %s", r.Path)
		roots = append(roots, r)
	}
	s.Roots = roots
	if len(now.Allow) > 0 {
		switch was := s.Allow; {
		case len(was) == 0:
			s.Allow = now.Allow
			x.add("paths have to match sandbox.allow")
		case len(config.Lost(was, now.Allow)) > 0 && !slices.Equal(was, []string{nowhere}):
			if s.Allow = common(was, now.Allow); len(s.Allow) == 0 {
				s.Allow = []string{nowhere}
			}
			x.add("sandbox.allow lacks %s", some(config.Lost(was, now.Allow)))
		}
	}
	if more := config.Lost(now.Deny, s.Deny); len(more) > 0 {
		s.Deny = union(s.Deny, now.Deny)
		x.add("sandbox.deny has %s", some(more))
	}
}

// plugins removes the plugins that the new configuration lacks, and narrows the sandboxes of the others.
func (x *intersection) plugins() {
	var plugins []config.Plugin
	for i := range x.old.Plugins {
		p := x.old.Plugins[i]
		now := x.now.Plugin(p.Name)
		if now == nil {
			if slices.Contains(x.now.Off, p.Name) && !slices.Contains(x.out.Off, p.Name) {
				x.out.Off = append(slices.Clone(x.out.Off), p.Name)
			}
			if slices.Contains(x.now.LeftOut, p.Name) { // not removed, only missing at the moment
				plugins = append(plugins, p)
				continue
			}
			x.add("the plugin %s is removed", p.Name)
			continue
		}
		x.plugin(&p, now)
		plugins = append(plugins, p)
	}
	x.out.Plugins = plugins
}

func (x *intersection) plugin(p, now *config.Plugin) {
	name := "plugin " + p.Name
	enforce := confinement.Enforce(x.old, p)
	if is := confinement.Enforce(x.now, now); p.Confinement.Enforce != "" || now.Confinement.Enforce != "" {
		x.stricter("enforce of "+name, &enforce, is, "off", "auto", "require")
		if enforce != confinement.Enforce(x.old, p) {
			p.Confinement.Enforce = enforce
		}
	}
	a, b := confinement.Profile(p), confinement.Profile(now)
	c := &p.Confinement
	no, yes := false, true
	if a.WriteRoots && !b.WriteRoots {
		c.WriteRoots = &no
		x.add("%s cannot write in the roots", name)
	}
	if !a.NoRoots && b.NoRoots {
		c.NoRoots = &yes
		x.add("%s cannot read in the roots", name)
	}
	if a.StartProcesses && !b.StartProcesses {
		c.Exec = &no
		x.add("%s cannot start programs", name)
	}
	x.both(&c.WriteGit, b.WriteGit, "%s cannot write the hooks and settings of repositories", name)
	switch gone := config.Lost(a.Hosts, b.Hosts); {
	case b.Network:
	case a.Network:
		c.Network, c.Hosts = &no, b.Hosts
		x.add("%s cannot use the network%s", name, except(b.Hosts))
	case len(gone) > 0:
		c.Hosts = common(a.Hosts, b.Hosts)
		x.add("%s cannot reach %s", name, some(gone))
	}
	for _, l := range []struct {
		what string
		mine *[]string
		now  []string
	}{{"read", &c.Read, b.Read}, {"write", &c.Write, b.Write}, {"run", &c.Run, b.Run}, {"call", &p.Calls, now.Calls}} {
		if gone := config.Lost(*l.mine, l.now); len(gone) > 0 {
			*l.mine = common(*l.mine, l.now)
			x.add("%s cannot %s %s", name, l.what, some(gone))
		}
	}
	x.limits(p, now)
}

// limits lowers the limits of a plugin.
func (x *intersection) limits(p, now *config.Plugin) {
	name := "plugin " + p.Name
	a, b := confinement.Profile(p), confinement.Profile(now)
	l, m := &p.Confinement.Limits, now.Confinement.Limits
	for _, limit := range limits {
		if is, will := limit.value(&a), limit.value(&b); will != 0 && (is == 0 || will < is) {
			*limit.setting(l) = *limit.setting(&m)
			x.add("the limit %s of %s is %d", limit.what, name, will)
		}
	}
	lower(x, &l.CPU, m.CPU, "the limit cpu of "+name)
	lower(x, &l.Total.CPUs, m.Total.CPUs, "the limit cpus of "+name+" in all")
}

// limits lists the limits of a plugin, except for its processor time. value returns the limit that applies, and setting
// the field of the configuration.
var limits = []struct {
	what    string
	value   func(p *sandbox.Profile) uint64
	setting func(l *config.Limits) *uint64
}{
	{"memory", func(p *sandbox.Profile) uint64 { return p.Limits.Memory }, func(l *config.Limits) *uint64 { return &l.Memory }},
	{"processes", func(p *sandbox.Profile) uint64 { return p.Limits.Processes }, func(l *config.Limits) *uint64 { return &l.Processes }},
	{"files", func(p *sandbox.Profile) uint64 { return p.Limits.Files }, func(l *config.Limits) *uint64 { return &l.Files }},
	{"file_size", func(p *sandbox.Profile) uint64 { return p.Limits.FileSize }, func(l *config.Limits) *uint64 { return &l.FileSize }},
	{"temporary", func(p *sandbox.Profile) uint64 { return p.Temporary }, func(l *config.Limits) *uint64 { return &l.Temporary }},
	{"memory in all", func(p *sandbox.Profile) uint64 { return p.Total.Memory }, func(l *config.Limits) *uint64 { return &l.Total.Memory }},
	{"processes in all", func(p *sandbox.Profile) uint64 { return p.Total.Processes }, func(l *config.Limits) *uint64 { return &l.Total.Processes }},
}

func except(hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	return " except for " + strings.Join(hosts, ", ")
}

func (x *intersection) principals() {
	var out principal.Blocks
	for _, i := range x.old.Access.Issuers {
		if slices.Contains(x.now.Access.Issuers, i) {
			out.Issuers = append(out.Issuers, i)
			continue
		}
		x.add("tokens of issuer %s are refused", i.Name)
	}
	for _, p := range x.old.Access.Principals {
		at := slices.IndexFunc(x.now.Access.Principals, func(o principal.Block) bool { return o.Name == p.Name })
		if at < 0 {
			x.add("the principal %s is removed", p.Name)
			continue
		}
		x.principal(&p, &x.now.Access.Principals[at])
		out.Principals = append(out.Principals, p)
	}
	x.out.Access = out
}

func (x *intersection) principal(p, now *principal.Block) {
	name := "principal " + p.Name
	if gone := p.Rights &^ now.Rights; gone != 0 {
		p.Rights &= now.Rights
		x.add("%s lacks the right %s", name, strings.Join(gone.Names(), ", "))
	}
	if len(p.Workspaces)+len(now.Workspaces) > 0 { // an empty list stands for the workspace in which the host was started
		is := common(p.Workspaces, now.Workspaces)
		if len(is) == 0 {
			is = []string{nowhere}
		}
		if !slices.Equal(is, p.Workspaces) {
			x.add("workspaces of %s are %s", name, some(is))
			p.Workspaces = is
		}
	}
	p.Users = slices.DeleteFunc(slices.Clone(p.Users), func(id int) bool {
		gone := !slices.Contains(now.Users, id)
		if gone {
			x.add("user %d is not %s", id, name)
		}
		return gone
	})
	if p.Issuer != "" && (p.Issuer != now.Issuer || !maps.Equal(p.Claims, now.Claims)) {
		p.Issuer, p.Claims = "", nil
		x.add("no token of an issuer is accepted for %s", name)
	}
	x.texts = append(x.texts, config.RestrictPrincipal(p, now)...)
}
