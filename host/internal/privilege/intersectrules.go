package privilege

import (
	"cmp"
	"slices"

	"toolhost.dev/host/internal/config"
)

// listed reports whether only listed programs may run.
func listed(p *config.Permissions) bool { return p.AllowList || p.Programs.Listed }

// free reports whether a call without a matching rule is allowed.
func free(p *config.Permissions) bool {
	return cmp.Or(p.Default, "allow") == "allow" && !listed(p)
}

// plain reports whether a rule permits only calls that need no rule in a configuration for which the
// function "free" returns true.
func plain(r *config.PermissionRule) bool {
	return r.Set == nil && r.Builtins == nil && !slices.Contains(r.Kinds, "external_directory")
}

func find(in []config.PermissionRule, r *config.PermissionRule) *config.PermissionRule {
	i := slices.IndexFunc(in, func(o config.PermissionRule) bool { return o.Effect == r.Effect && o.Name == r.Name })
	if i < 0 {
		return nil
	}
	return &in[i]
}

// permissions keeps a rule that permits calls if it is in both configurations, and a rule that restricts
// calls if it is in one of them. A restricting rule that is only in the new configuration becomes like a rule of a
// project file: it cannot permit calls that other rules deny.
func (x *intersection) permissions() {
	old, now := x.old.Permissions, x.now.Permissions
	p := &x.out.Permissions
	if !listed(&old) && listed(&now) {
		p.Programs.Listed = true
		x.add("only listed programs may run")
	}
	p.Rules, p.Project, p.Tests = nil, slices.Clone(old.Project), nil
	for i := range old.Rules {
		x.oldRule(&old.Rules[i])
	}
	for i := range now.Rules {
		x.newRule(&now.Rules[i])
	}
	for i := range now.Project {
		x.restrict(&now.Project[i])
	}
	p.Paths.Deny, p.Paths.Protect = union(old.Paths.Deny, now.Paths.Deny), union(old.Paths.Protect, now.Paths.Protect)
	p.Programs.Deny = union(old.Programs.Deny, now.Programs.Deny)
	p.Programs.Allow, p.Programs.Ask = commands(p.Rules, "programs.allow"),
		union(commands(p.Rules, "programs.ask"), commands(p.Project, "programs.ask"))
}

func commands(rules []config.PermissionRule, name string) []string {
	i := slices.IndexFunc(rules, func(r config.PermissionRule) bool { return r.List && r.Name == name })
	if i < 0 {
		return nil
	}
	return rules[i].Commands
}

// oldRule adds a rule of the old configuration to the result. If the rule permits calls, oldRule restricts it to calls
// that the new configuration also permits.
func (x *intersection) oldRule(r *config.PermissionRule) {
	p, now := &x.out.Permissions, &x.now.Permissions
	is := find(now.Rules, r)
	permits := r.Effect == "allow" || r.Effect == "ask" && (len(r.Builtins) > 0 || listed(now) && r.Commands != nil)
	switch {
	case !permits, is != nil && is.Same(r), plain(r) && free(now):
		p.Rules = append(p.Rules, *r)
		return
	case is != nil:
		if both, ok := meet(r, is); ok {
			p.Rules = append(p.Rules, both)
		}
		if !same(p.Rules, r) {
			x.add("the rule %s %q permits less", r.Effect, r.Name)
		}
	default:
		x.add("the rule %s %q does not permit anything", r.Effect, r.Name)
	}
	if r.Effect == "ask" {
		x.restrict(r)
	}
}

// newRule adds a rule of the new configuration to the result if the rule restricts calls, or if the old configuration
// permits the same calls.
func (x *intersection) newRule(r *config.PermissionRule) {
	old := &x.old.Permissions
	was := find(old.Rules, r)
	if was != nil && (was.Same(r) || r.List && r.Effect == "deny" && len(config.Lost(r.Paths, was.Paths)) == 0 &&
		len(config.Lost(r.Commands, was.Commands)) == 0) {
		return
	}
	lists := r.Effect == "allow" || r.Effect == "ask" && listed(&x.now.Permissions) && r.Commands != nil
	if p := &x.out.Permissions; lists && plain(r) && free(old) && !same(p.Rules, r) {
		p.Rules = append(p.Rules, *r) // the old configuration permits these calls without a rule
		return
	}
	if r.Effect != "allow" {
		x.restrict(r)
	}
}

// restrict adds a rule like a rule of a project file, which cannot permit calls that other rules deny.
func (x *intersection) restrict(r *config.PermissionRule) {
	p := &x.out.Permissions
	if same(p.Project, r) || same(p.Rules, r) {
		return
	}
	p.Project = append(p.Project, *r)
	if !same(x.old.Permissions.Rules, r) {
		x.add("the rule %s %q applies", r.Effect, r.Name)
	}
}

func same(rules []config.PermissionRule, r *config.PermissionRule) bool {
	return slices.ContainsFunc(rules, func(o config.PermissionRule) bool { return o.Same(r) })
}

// meet returns a rule for the calls that both rules match. It compares the conditions of the rules literally. ok is
// false if no call matches both rules, or if the rules have different effects on a call.
func meet(a, b *config.PermissionRule) (out config.PermissionRule, ok bool) {
	if a.Set != nil || b.Set != nil || (a.Builtins == nil) != (b.Builtins == nil) {
		return out, false
	}
	out = *a
	out.Starts = common(a.Starts, b.Starts)
	for _, l := range []struct {
		into *[]string
		b    []string
	}{{&out.Tools, b.Tools}, {&out.Kinds, b.Kinds}, {&out.Paths, b.Paths}, {&out.Commands, b.Commands},
		{&out.Domains, b.Domains}, {&out.Traits, b.Traits}, {&out.Builtins, b.Builtins}} {
		if *l.into = orAll(*l.into, l.b); *l.into != nil && len(*l.into) == 0 {
			return out, false
		}
	}
	if len(out.Starts) == 0 {
		out.Starts = nil
	}
	return out, true
}
