package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
)

// Decision on a call; see [Host.Judge].
type Decision = policy.Decision

// Judge says what the permissions make of a request. It asks nobody and runs nothing.
func (h *Host) Judge(req Request) (*Decision, error) {
	s, err := h.session(req)
	if err != nil {
		return nil, err
	}
	return h.current.Load().dispatch.Judge(h.dispatchRequest(req, s)), nil
}

// rules are the operator's, as far as they can be checked without knowing the tools.
func rules(cfg *config.Config) (policy.Rules, error) {
	p := &cfg.Permissions
	out := policy.Rules{
		Strict: cfg.Sandbox.Strict, Allow: cfg.Sandbox.Allow, Deny: cfg.Sandbox.Deny,
		Default: policy.Effect(p.Default), AllowList: p.AllowList, NoBuiltin: p.NoBuiltin,
	}
	var bad []config.RuleProblem
	for i := range p.Rules {
		r := &p.Rules[i]
		rule := policy.Rule{
			Effect: policy.Effect(r.Effect), Name: r.Name, At: r.Place(), Reason: r.Reason, Set: r.Set,
			Tools: r.Tools, Kinds: r.Kinds, Paths: r.Paths, Commands: r.Commands, Domains: r.Domains,
		}
		problems := rule.Prepare()
		for _, problem := range problems {
			bad = append(bad, config.RuleProblem{Rule: i, Attribute: problem.Attribute, Why: problem.Err})
		}
		if len(problems) > 0 {
			continue
		}
		for k := range out.Rules {
			if out.Rules[k].Shadows(&rule) {
				bad = append(bad, config.RuleProblem{Rule: i, Why: fmt.Errorf("it never applies, because %s is about the same and goes before it. Remove one of the two", &out.Rules[k])})
				break
			}
		}
		out.Rules = append(out.Rules, rule)
	}
	return out, cfg.BadRules(bad)
}

// boundRules are the rules, checked against the tools that there are.
func (g *generation) boundRules() (policy.Rules, error) {
	out, err := rules(g.cfg)
	if err != nil {
		return out, err
	}
	var bad []config.RuleProblem
	for i := range out.Rules {
		problems := g.bind(&out.Rules[i])
		for _, attribute := range slices.Sorted(maps.Keys(problems)) {
			bad = append(bad, config.RuleProblem{Rule: i, Attribute: attribute, Why: problems[attribute]})
		}
	}
	err = g.cfg.BadRules(bad)
	if err != nil && (len(g.unloaded) > 0 || len(g.cfg.LeftOut) > 0) {
		g.problem("%v", err) // the tools may be there the next time
		err = nil
	}
	return out, err
}

// bind turns the aliases in a rule into what they stand for, and gives what is wrong with
// the rule for these tools, by attribute.
func (g *generation) bind(r *policy.Rule) map[string]error {
	bad := make(map[string]error)
	names := g.toolNames()
	aliases := g.registry.Aliases()
	for i, t := range r.Tools {
		if a, ok := aliases[t]; ok {
			r.Tools[i] = a.Target()
		} else if !slices.ContainsFunc(names, func(n string) bool { return doublestar.MatchUnvalidated(t, n) }) {
			bad["tool"] = fmt.Errorf("there is no tool %q.%s", t, suggest.DidYouMean(t, names))
		}
	}
	kinds := append([]string{policy.KindExternal, policy.KindBash, policy.KindEdit}, names...)
	for _, k := range r.Kinds {
		if !slices.Contains(kinds, k) {
			bad["kind"] = fmt.Errorf("there is no kind of permission %q. The kinds are %s, %s, %s and the names of tools.%s",
				k, policy.KindExternal, policy.KindBash, policy.KindEdit, suggest.DidYouMean(k, kinds))
		}
	}
	if len(bad) > 0 {
		return bad
	}
	about := g.about(r)
	takesPaths := func(e *registry.Entry) bool {
		return e.Definition.Name == dispatch.Shell || slices.ContainsFunc(e.Schema().Params(), func(p *tool.Param) bool { return p.Path != "" })
	}
	if r.Paths != nil && (r.Tools != nil || r.Kinds != nil) && !slices.Contains(r.Kinds, policy.KindExternal) && !slices.ContainsFunc(about, takesPaths) {
		bad["path"] = errors.New("none of the tools that the rule is about takes a path, so it would never apply")
	}
	if len(r.Set) > 0 {
		if err := settable(r, about); err != nil {
			bad["set"] = err
		}
	}
	return bad
}

// about gives the tools that a rule can be about.
func (g *generation) about(r *policy.Rule) []*registry.Entry {
	var out []*registry.Entry
	for _, e := range g.registry.All() {
		req := policy.Request{Name: e.FullName(), Definition: &e.Definition, Schema: e.Schema(), Shell: e.Definition.Name == dispatch.Shell}
		named := r.Tools == nil || slices.ContainsFunc(r.Tools, func(t string) bool { return doublestar.MatchUnvalidated(t, e.FullName()) })
		kind := r.Kinds == nil || slices.Contains(r.Kinds, req.Kind())
		if named && kind && (r.Commands == nil || req.Shell) {
			out = append(out, e)
		}
	}
	return out
}

// settable says what is wrong with the parameters that a rule sets.
func settable(r *policy.Rule, about []*registry.Entry) error {
	if r.Tools == nil && r.Kinds == nil && r.Commands == nil {
		return errors.New("the rule must say of which tool it sets parameters. Add tool = [\"…\"]")
	}
	for _, e := range about {
		_, bad := e.Schema().Check(r.Set)
		for _, v := range bad {
			if _, ours := r.Set[v.Param]; ours {
				return fmt.Errorf("these are no parameters for the tool %s: %s", e.FullName(), v.Message)
			}
		}
	}
	return nil
}

func (g *generation) toolNames() []string {
	var names []string
	for _, e := range g.registry.All() {
		names = append(names, e.FullName())
	}
	return names
}

// PermissionTest says what the permissions are meant to make of a command.
type PermissionTest = config.PermissionTest

// LoadPermissionTests reads a file of test blocks.
func LoadPermissionTests(file string) ([]PermissionTest, error) { return config.LoadTests(file) }

// PermissionTests are those of the configuration.
func (h *Host) PermissionTests() []PermissionTest { return h.current.Load().cfg.Permissions.Tests }

// TestPermissions runs a test and gives what is wrong; nil: nothing is.
func (h *Host) TestPermissions(t PermissionTest) error {
	d, err := h.Judge(Request{Command: t.Command})
	if err != nil {
		return err
	}
	by := ""
	if d.Rule != "" {
		by = " by " + d.Rule
	}
	why := d.Reason
	if why == "" {
		why = "no rule is about it"
	}
	switch {
	case string(d.Effect) != t.Expect:
		return fmt.Errorf("%s: test %q: %q is expected to be %s, and is %s%s: %s", t.At, t.Name, t.Command, past(t.Expect), past(string(d.Effect)), by, why)
	case t.Rule != "" && !slices.ContainsFunc(d.Judged, func(j policy.Judgement) bool { return j.Decides(t.Rule) }):
		return fmt.Errorf("%s: test %q: %q is expected to fall under the rule %q, and does not: it is %s%s: %s", t.At, t.Name, t.Command, t.Rule, past(t.Expect), by, why)
	}
	return nil
}

func past(effect string) string {
	return map[string]string{"allow": "allowed", "ask": "asked about", "deny": "denied"}[effect]
}
