package generation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/roots"
)

// boundRules returns the operator's rules after checking them against the registered tools. It also binds the hooks.
func (g *Generation) boundRules(workspace string) (policy.Rules, error) {
	out, err := privilege.Rules(g.Config)
	if err != nil {
		return out, err
	}
	var bad []config.RuleProblem
	out.Shells = []string{}
	for _, e := range g.Registry.All() {
		if isShell(e) {
			out.Shells = append(out.Shells, e.FullName())
		}
	}
	for i := range out.Rules {
		problems := g.bind(&out.Rules[i])
		if g.Config.Permissions.Rules[i].List {
			delete(problems, "path") // a list can name tools that are not registered now
		}
		for _, attribute := range slices.Sorted(maps.Keys(problems)) {
			problem := config.RuleProblem{Rule: i, Attribute: attribute, Why: problems[attribute]}
			if g.mounts(out.Rules[i].Tools) {
				g.misname("rule "+attribute+" "+strings.Join(out.Rules[i].Tools, " "),
					g.Config.BadRules([]config.RuleProblem{problem}).Error())
			} else {
				bad = append(bad, problem)
			}
		}
		if glob, covers := out.Rules[i].Covers(workspace, roots.Configured(g.Config, workspace)); covers &&
			g.Config.Permissions.Rules[i].Hides() {
			bad = append(bad, config.RuleProblem{Rule: i, Attribute: "path", Why: fmt.Errorf("the glob %q matches a whole root. Name the files or directories in it", glob)})
		}
	}
	out.Project = slices.DeleteFunc(out.Project, func(r policy.Rule) bool { return len(g.bind(&r)) > 0 })
	err = errors.Join(append(g.lost, g.Config.BadRules(bad), g.boundHooks())...)
	if err != nil && (len(g.Unloaded) > 0 || len(g.Config.LeftOut) > 0) {
		g.Problemf("%v", err) // not fatal, because the next load can register the tools
		err = nil
	}
	return out, err
}

// mounts reports whether one of the names belongs to a field that serves the tools of another program. Such a
// name can be unknown because the program changed its tools, which must not prevent a start.
func (g *Generation) mounts(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		field, _, _ := strings.Cut(name, ":")
		return slices.ContainsFunc(g.Plugins, func(p *Plugin) bool { return p.Mounted && p.Field == field })
	})
}

// bind resolves the aliases in a rule. It returns problems of the rule that depend on the registered tools.
// The keys of the map are the attributes with a problem.
func (g *Generation) bind(r *policy.Rule) map[string]error {
	bad := make(map[string]error)
	names := g.toolNames()
	for i, t := range r.Tools {
		name, err := g.resolve(t)
		if err != nil && !slices.Contains(g.Registry.Namespaces(), t) { // a rule can be about a field itself, such as its requests
			bad["tool"] = err
			continue
		}
		r.Tools[i] = cmp.Or(name, t)
	}
	fixed := []string{policy.KindExternal, policy.KindBash, policy.KindEdit, policy.KindRelay, policy.KindSampling}
	kinds := slices.Compact(slices.Sorted(slices.Values(append(fixed, names...))))
	for _, k := range r.Kinds {
		if !slices.Contains(kinds, k) {
			bad["kind"] = fmt.Errorf("unknown kind of permission %q. The kinds are %s and the names of tools.%s",
				k, strings.Join(fixed, ", "), suggest.DidYouMean(k, kinds))
		}
	}
	if len(bad) > 0 {
		return bad
	}
	about := g.toolsOf(r)
	takesPaths := func(e *registry.Entry) bool {
		return isShell(e) || slices.ContainsFunc(e.Schema().Params(), func(p *tool.Param) bool { return p.Path != "" })
	}
	if r.Paths != nil && (r.Tools != nil || r.Kinds != nil) && !slices.Contains(r.Kinds, policy.KindExternal) &&
		!slices.ContainsFunc(about, takesPaths) {
		bad["path"] = errors.New("none of the tools that the rule matches has a path parameter, so the rule would never apply")
	}
	for attribute, has := range map[string]bool{"command": r.Commands != nil, "builtin": r.Builtins != nil,
		"show": r.Show != ""} {
		if has && r.Tools != nil && !slices.ContainsFunc(about, isShell) {
			bad[attribute] = errors.New("none of the tools that the rule selects runs commands, so it would never apply. Remove tool, or name the tool that runs commands")
		}
	}
	if len(r.Set) > 0 {
		if err := settable(r, about); err != nil {
			bad["set"] = err
		}
	}
	return bad
}

// ShadowedPrograms returns a gap for each agent tool and each alias of the operator that has the name of a program and
// gets its commands. Rules for commands do not judge them. A name is a program if a rule for commands begins with it,
// or if the function installed reports so. A tool that is bundled or describes the program is omitted.
func (g *Generation) ShadowedPrograms(installed func(name string) bool) (out []confinement.Gap) {
	var judged []string
	for i := range g.Config.Permissions.Rules {
		for _, pattern := range g.Config.Permissions.Rules[i].Commands {
			program, _, _ := strings.Cut(strings.TrimSpace(pattern), " ")
			judged = append(judged, program)
		}
	}
	shadows := func(name string) bool {
		return !tool.ShellWord(name) && (slices.Contains(judged, name) || installed(name))
	}
	const what = "%s gets the commands of the program %s, and rules for commands do not judge them"
	for _, e := range g.Registry.All() {
		name := e.FullName()
		if e.Namespace != "" || !e.Enabled || e.Bundled || e.Definition.Shares() != nil || !shadows(name) {
			continue
		}
		out = append(out, confinement.Gap{
			What: fmt.Sprintf(what, fmt.Sprintf("the tool %s of plugin %s", name, e.Plugin), name),
			How: fmt.Sprintf("name the tool in the rules (tool = [%q]), or turn it off: tool %[1]q { enabled = false }. "+
				"Its author can describe the program in the definition of the tool", name),
		})
	}
	aliases := g.Registry.Aliases()
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		if a := aliases[name]; !a.Optional && shadows(name) { // the presets have no names of programs that rules are about
			out = append(out, confinement.Gap{What: fmt.Sprintf(what, "the alias "+name, name),
				How: fmt.Sprintf("name its tool in the rules (tool = [%q]), or rename the alias", a.Target())})
		}
	}
	return out
}

// isShell reports whether the arguments of a tool are commands.
func isShell(e *registry.Entry) bool { return e.Definition.Role == tool.RoleShell }

// toolsOf returns the tools to which a rule can apply.
func (g *Generation) toolsOf(r *policy.Rule) []*registry.Entry {
	var out []*registry.Entry
	for _, e := range g.Registry.All() {
		req := policy.Request{Name: e.FullName(), Definition: &e.Definition, Schema: e.Schema(), Shell: isShell(e)}
		named := r.Tools == nil ||
			slices.ContainsFunc(r.Tools, func(t string) bool { return doublestar.MatchUnvalidated(t, e.FullName()) })
		kind := r.Kinds == nil || slices.Contains(r.Kinds, req.Kind())
		if named && kind && r.MatchTraits(e.Definition.Traits) && (r.Commands == nil || req.Shell) {
			out = append(out, e)
		}
	}
	return out
}

// described returns the description of a parameter for a message, or "".
func described(e *registry.Entry, param string) string {
	for _, p := range e.Schema().Params() {
		if p.Name == param && p.Description != "" {
			return fmt.Sprintf(" (%s, %s: %s)", param, p.TypeName(), strings.TrimSuffix(p.Description, "."))
		}
	}
	return ""
}

// settable returns an error if a rule sets parameters that its tools do not accept.
func settable(r *policy.Rule, about []*registry.Entry) error {
	if r.Tools == nil && r.Kinds == nil && r.Commands == nil {
		return errors.New("the rule has parameters but names no tool. Add tool = [\"…\"]")
	}
	for _, e := range about {
		_, bad := e.Schema().Check(r.Set)
		for _, v := range bad {
			if _, ours := r.Set[v.Param]; ours {
				return fmt.Errorf("the tool %s does not accept these parameters: %s%s", e.FullName(), v.Message, described(e, v.Param))
			}
		}
	}
	return nil
}
