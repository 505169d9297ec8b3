package privilege

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/policy"
)

// Rules returns the valid permission rules in a configuration. It does not check whether the tools of a rule exist. The
// error lists every invalid rule with file and line.
func Rules(cfg *config.Config) (policy.Rules, error) {
	p := &cfg.Permissions
	out := policy.Rules{
		Strict: cfg.Sandbox.Strict, Allow: cfg.Sandbox.Allow, Deny: cfg.Sandbox.Deny,
		Default: policy.Effect(p.Default), AllowList: p.AllowList || p.Programs.Listed, NoBuiltin: p.NoBuiltin,
		Careful: config.Stricter(p.Policy, "careful") == p.Policy, Search: searched(),
	}
	if p.Programs.Listed {
		out.ListedBy = `programs { mode = "listed" }`
	}
	if p.Policy == "listed" {
		out.ListedBy = `policy = "listed"`
	}
	var bad []config.RuleProblem
	for i := range p.Rules {
		rule, problems := prepare(&p.Rules[i])
		for _, problem := range problems {
			bad = append(bad, config.RuleProblem{Rule: i, Attribute: problem.Attribute, Why: problem.Err})
		}
		if len(problems) > 0 {
			continue
		}
		for k := range out.Rules {
			if out.Rules[k].Shadows(&rule) {
				bad = append(bad, config.RuleProblem{Rule: i, Why: fmt.Errorf("the rule never applies, because %s matches the same calls and has priority. Remove one of the two rules", &out.Rules[k])})
				break
			}
		}
		out.Rules = append(out.Rules, rule)
	}
	for i := range p.Project {
		if rule, problems := prepare(&p.Project[i]); len(problems) == 0 { // ignore invalid rules, because an untrusted file must not prevent a start
			out.Project = append(out.Project, rule)
		}
	}
	return out, cfg.BadRules(bad)
}

// searched returns the directories in which the host searches the operator's programs.
func searched() []string {
	return slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool {
		return !filepath.IsAbs(dir) || dir != filepath.Clean(dir)
	})
}

// RuleWorks reports whether a rule is valid. It does not check whether the tools of the rule exist.
func RuleWorks(r *config.PermissionRule) bool {
	_, problems := prepare(r)
	return len(problems) == 0
}

// prepare converts a rule for the policy. It also returns the problems of the rule.
func prepare(r *config.PermissionRule) (policy.Rule, []policy.Problem) {
	rule := policy.Rule{
		Effect: policy.Effect(r.Effect), Name: r.Name, At: r.Place(), Reason: r.Reason, Show: r.Show, Set: r.Set,
		Tools: r.Tools, Kinds: r.Kinds, Paths: r.Paths, Commands: r.Commands, Domains: r.Domains, Builtins: r.Builtins,
		Starts: r.Starts, Traits: r.Traits,
	}
	return rule, rule.Prepare()
}

// ListedPrograms returns patterns for the names of the only programs that commands can execute under a configuration.
// It returns nil if they can execute all programs.
func ListedPrograms(cfg *config.Config) []string {
	rules, _ := Rules(cfg) // error ignored: other code reports invalid rules, and they list no programs
	if p := policy.New(rules); p.Lists() {
		return append([]string{}, p.Listed()...)
	}
	return nil
}
