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
// plugins, permissions, principals and limits. All other settings are those of the configuration "old", so that
// programs that appear only in the configuration "now" cannot make the result fail. A right is removed unless it is
// literally in both configurations.
//
// The list "taken" describes each removed right. It is empty if nothing was removed. The field Restricted of the result
// also contains the descriptions from earlier intersections. The result shares memory with both arguments, so the
// arguments must not change.
func Intersect(old, now *config.Config) (out *config.Config, taken []string) {
	result := *old
	x := &intersection{old: old, now: now, out: &result}
	x.sandbox()
	x.plugins()
	x.tools()
	x.permissions()
	x.principals()
	x.endpoints()
	x.host()
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

// either sets a restriction to true if one of the configurations has it.
func (x *intersection) either(value *bool, now bool, format string, a ...any) {
	if !*value && now {
		*value = true
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
	if len(lost(a, b)) == 0 {
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
func union(a, b []string) []string { return slices.Concat(a, lost(b, a)) }

func (x *intersection) sandbox() {
	s, now := &x.out.Sandbox, x.now.Sandbox
	x.stricter("the workspace", &s.Workspace, now.Workspace, "read-write", "read-only")
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
	s.AllowRoot = common(s.AllowRoot, now.AllowRoot)
	x.either(&s.Strict, now.Strict, "paths with symbolic links or \"..\" are refused")
	if len(now.Allow) > 0 {
		switch was := s.Allow; {
		case len(was) == 0:
			s.Allow = now.Allow
			x.add("paths have to match sandbox.allow")
		case len(lost(was, now.Allow)) > 0 && !slices.Equal(was, []string{nowhere}):
			if s.Allow = common(was, now.Allow); len(s.Allow) == 0 {
				s.Allow = []string{nowhere}
			}
			x.add("sandbox.allow lacks %s", some(lost(was, now.Allow)))
		}
	}
	if more := lost(now.Deny, s.Deny); len(more) > 0 {
		s.Deny = union(s.Deny, now.Deny)
		x.add("sandbox.deny has %s", some(more))
	}
	x.stricter("sandbox.backend", &s.Backend, now.Backend, sandbox.ByPrivilege()...)
	x.stricter("sandbox.enforce", &s.Enforce, now.Enforce, "off", "auto", "require")
	x.stricter("sandbox.repositories", &s.Repositories, now.Repositories, "off", "quarantine")
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
	switch gone := lost(a.Hosts, b.Hosts); {
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
		if gone := lost(*l.mine, l.now); len(gone) > 0 {
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
	for _, limit := range []struct {
		what          string
		is, will      uint64 // the limits that apply; 0 means no limit
		mine, setting *uint64
	}{
		{"memory", a.Limits.Memory, b.Limits.Memory, &l.Memory, &m.Memory}, {"processes", a.Limits.Processes, b.Limits.Processes, &l.Processes, &m.Processes},
		{"files", a.Limits.Files, b.Limits.Files, &l.Files, &m.Files}, {"file_size", a.Limits.FileSize, b.Limits.FileSize, &l.FileSize, &m.FileSize},
		{"temporary", a.Temporary, b.Temporary, &l.Temporary, &m.Temporary},
		{"memory in all", a.Total.Memory, b.Total.Memory, &l.Total.Memory, &m.Total.Memory}, {"processes in all", a.Total.Processes, b.Total.Processes, &l.Total.Processes, &m.Total.Processes},
	} {
		if limit.will != 0 && (limit.is == 0 || limit.will < limit.is) {
			*limit.mine = *limit.setting
			x.add("the limit %s of %s is %d", limit.what, name, limit.will)
		}
	}
	lower(x, &l.CPU, m.CPU, "the limit cpu of "+name)
	lower(x, &l.Total.CPUs, m.Total.CPUs, "the limit cpus of "+name+" in all")
}

func except(hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	return " except for " + strings.Join(hosts, ", ")
}

func (x *intersection) tools() {
	off := false
	tools := maps.Clone(x.old.Tools)
	if tools == nil {
		tools = make(map[string]config.Tool)
	}
	for _, name := range slices.Sorted(maps.Keys(x.now.Tools)) {
		t, now := tools[name], x.now.Tools[name]
		if now.Enabled != nil && !*now.Enabled && (t.Enabled == nil || *t.Enabled) {
			t.Enabled = &off
			x.add("the tool %s is disabled", name)
		}
		lower(x, &t.MaxConcurrent, now.MaxConcurrent, "max_concurrent of the tool "+name)
		if t.Enabled != nil || t.MaxConcurrent != 0 {
			tools[name] = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.old.Tools)) {
		t, now := tools[name], x.now.Tools[name]
		if t.Enabled != nil && *t.Enabled && now.Enabled == nil {
			t.Enabled = nil
			tools[name] = t
			x.add("the tool %s is no longer enabled explicitly", name)
		}
	}
	x.out.Tools = tools
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
	for _, l := range []struct {
		what      string
		mine, now *[]string
		start     bool // whether an empty list stands for the workspace in which the host was started
	}{
		{"workspaces", &p.Workspaces, &now.Workspaces, true}, {"tools", &p.Tools, &now.Tools, false}, {"fields", &p.Fields, &now.Fields, false},
		{"answers_for", &p.AnswersFor, &now.AnswersFor, false},
	} {
		is := orAll(*l.mine, *l.now)
		if l.start && len(*l.mine)+len(*l.now) > 0 {
			if is = common(*l.mine, *l.now); len(is) == 0 {
				is = []string{nowhere}
			}
		}
		if !slices.Equal(is, *l.mine) || (is == nil) != (*l.mine == nil) && !l.start {
			x.add("%s of %s are %s", l.what, name, cmp.Or(some(is), "none"))
			*l.mine = is
		}
	}
	for _, id := range lostUsers(p.Users, now.Users) {
		x.add("user %d is not %s", id, name)
		p.Users = slices.DeleteFunc(slices.Clone(p.Users), func(u int) bool { return u == id })
	}
	if p.Issuer != "" && (p.Issuer != now.Issuer || !maps.Equal(p.Claims, now.Claims)) {
		p.Issuer, p.Claims = "", nil
		x.add("no token of an issuer is accepted for %s", name)
	}
	lower(x, &p.MaxCalls, now.MaxCalls, "max_calls of "+name)
	lower(x, &p.MaxSessions, now.MaxSessions, "max_sessions of "+name)
	lower(x, &p.MaxOutput, now.MaxOutput, "max_output of "+name)
}

func lostUsers(old, now []int) (out []int) {
	for _, id := range old {
		if !slices.Contains(now, id) {
			out = append(out, id)
		}
	}
	return out
}

func (x *intersection) endpoints() {
	var out []config.Endpoint
	for _, e := range x.old.Endpoints {
		at := slices.IndexFunc(x.now.Endpoints, func(o config.Endpoint) bool { return o.Name == e.Name })
		if at < 0 {
			x.add("the endpoint %s is removed", e.Name)
			continue
		}
		now := x.now.Endpoints[at]
		tools, principals := orAll(e.Tools, now.Tools), orAll(e.Principals, now.Principals)
		if len(tools) != len(e.Tools) || len(principals) != len(e.Principals) {
			x.add("the endpoint %s offers less", e.Name)
		}
		e.Tools, e.Principals = tools, principals
		out = append(out, e)
	}
	x.out.Endpoints = out
}

func (x *intersection) host() {
	h, now := &x.out.Host, x.now.Host
	x.stricter("on_ask", &h.OnAsk, now.OnAsk, "allow", "prompt", "", "deny")
	lower(x, &h.MaxCalls, now.MaxCalls, "max_calls of the host")
	lower(x, &h.MaxParallel, now.MaxParallel, "max_parallel of the host")
	if quotas := x.old.Quotas.Stricter(x.now.Quotas); !maps.Equal(quotas, x.old.Quotas) {
		x.out.Quotas = quotas
		x.add("the quotas are lower")
	}
	a := &x.out.Audit
	x.both(&a.Off, x.now.Audit.Off, "calls are audited")
	x.both(&a.Continue, x.now.Audit.Continue, "calls are refused while the audit log cannot be written")
	if more := lost(x.now.Audit.Secrets, a.Secrets); len(more) > 0 {
		a.Secrets = union(a.Secrets, x.now.Audit.Secrets)
		x.add("the audit log masks %s", some(more))
	}
	x.either(&x.out.Trust.Approve, x.now.Trust.Approve, "tools with unapproved definitions cannot be called")
	x.both(&x.out.Reload.AnyChanges, x.now.Reload.AnyChanges, "versions of plugins that break callers are refused")
	mode := cmp.Or(x.out.Workspace.Mode, "direct")
	x.stricter("workspace.mode", &mode, cmp.Or(x.now.Workspace.Mode, "direct"), "direct", config.ModeBranch, "require")
	if mode != "direct" {
		x.out.Workspace.Mode = mode
	}
	x.stricter("reload.privilege_increases", &x.out.Reload.PrivilegeIncreases, x.now.Reload.PrivilegeIncreases, "allow", "explicit", "approve")
}
