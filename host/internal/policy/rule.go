package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/shellscript"
)

// These are the kinds of permissions. Every other kind is the name of a tool.
const (
	// KindExternal is the permission to access files outside the roots.
	KindExternal = "external_directory"
	// KindBash is the permission to run commands.
	KindBash = "bash"
	// KindEdit is the permission to change files.
	KindEdit = "edit"
	// KindRelay is the permission to use an item of an MCP server that is not a tool, such as a resource.
	KindRelay = "relay"
	// KindSampling is the permission of an MCP server to use the model of a client.
	KindSampling = "sampling"
)

// Rule is a rule of the operator. A rule applies to a part of a call if all fields of the rule match. A list matches if
// one of its elements matches.
type Rule struct {
	Effect Effect
	Name   string
	// At is the position of the rule in the configuration, in the form "file:line".
	At string
	// Tools contains globs for full tool names. Kinds contains kinds of permissions.
	Tools, Kinds []string
	// Paths contains globs: absolute globs, globs relative to the home directory ("~"), and globs relative to the
	// workspace. A glob without a slash matches files with this name in any directory.
	Paths []string
	// Commands contains patterns; see [shellscript.Pattern].
	Commands []string
	// Builtins contains names of built-in rules. The rule matches the same commands as these built-in rules and
	// replaces them.
	Builtins []string
	// Traits contains names of traits of tools, such as "dangerous".
	Traits []string
	// Domains contains host names. "*.example.org" matches every host name that ends in ".example.org".
	Domains []string
	// Starts contains names of programs. In the mode of [Rules.AllowList], the programs of this rule can start these
	// programs. In a name, * matches any text.
	Starts []string
	Reason string
	// Show is "diff" if the command first runs in a preview, so that the permission request shows what the command
	// changes. Only ask rules about commands can set this field.
	Show string
	// Set maps parameters to values. The rule sets these parameters in matching calls.
	Set map[string]json.RawMessage

	patterns []shellscript.Pattern
	globs    []pathGlob
}

// pathGlob is a glob for paths.
type pathGlob struct {
	glob     string
	relative bool // whether the glob is relative to the workspace
}

func (r *Rule) String() string {
	if r.At == "" {
		return fmt.Sprintf("%s %q", r.Effect, r.Name)
	}
	return fmt.Sprintf("%s %q (%s)", r.Effect, r.Name, r.At)
}

// Problem is an error in an attribute of a rule.
type Problem struct {
	Attribute string // empty if the problem concerns the whole rule
	Err       error
}

// Prepare validates a rule and compiles its patterns. It returns all problems.
func (r *Rule) Prepare() []Problem {
	var out []Problem
	fail := func(attribute, format string, a ...any) {
		out = append(out, Problem{attribute, fmt.Errorf(format, a...)})
	}
	if r.Tools == nil && r.Kinds == nil && r.Paths == nil && r.Commands == nil && r.Domains == nil &&
		r.Builtins == nil && r.Traits == nil {
		fail("", "the rule has no condition. Add tool, trait, kind, path, command, domain or builtin. To decide about all other calls, set default = \"…\"")
	}
	for _, l := range []struct {
		name   string
		values []string
	}{{"tool", r.Tools}, {"kind", r.Kinds}, {"path", r.Paths}, {"command", r.Commands}, {"domain", r.Domains},
		{"builtin", r.Builtins}, {"trait", r.Traits}} {
		if l.values != nil && len(l.values) == 0 {
			fail(l.name, "an empty list matches nothing, so the rule would never apply. Remove the list, or add an entry")
		}
		if slices.Contains(l.values, "") {
			fail(l.name, "an empty string matches nothing. Remove the empty string")
		}
		for _, v := range l.values {
			if inner, ok := ruleOfAgent(v); ok && l.name != "tool" && l.name != "kind" { // the names of tools are resolved later
				fail(l.name, "%q is a rule of another program, which matches nothing here. Write %s = [%q]", v, l.name, inner)
			}
		}
	}
	r.compile(fail)
	if r.Builtins != nil && !r.aboutCommands(nil) {
		fail("builtin", "built-in rules are about commands, but the rule selects other kinds of permissions, so it would never apply. Remove kind")
	}
	if r.Commands != nil && !r.aboutCommands(nil) {
		fail("command", "the rule selects kinds of permissions that commands do not have, so it would never apply. Remove kind")
	}
	if r.Starts != nil && (r.Commands == nil || r.Effect == Deny) {
		fail("starts", `only a rule that lists programs can have the attribute "starts". Add the attribute "command" to an allow or ask rule`)
	}
	if i := slices.IndexFunc(r.Starts,
		func(s string) bool { return s == "" || strings.ContainsAny(s, "/ \t") }); i >= 0 {
		fail("starts", "%q is not the name of a program. Write a name such as less or git-*, without a path and arguments", r.Starts[i])
	}
	switch {
	case r.Show == "":
	case r.Effect != Ask:
		fail("show", "only an ask rule asks, so only an ask rule can show a diff. Remove show, or change the rule to ask")
	case !r.aboutCommands(nil):
		fail("show", "only commands run in a preview, but the rule selects other kinds of permissions, so it would have no effect. Remove show, or add %s to kind", KindBash)
	}
	if len(r.Set) > 0 && r.Effect == Deny {
		fail("set", "a deny rule cannot set parameters. Remove set, or change the rule to allow or ask")
	}
	return out
}

// toolsOfAgents lists the names of tools in the rules of other programs, such as Read(./.env).
var toolsOfAgents = []string{
	"Bash", "Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "Glob", "Grep", "LS", "WebFetch",
}

// ruleOfAgent returns what stands in the parentheses of another program's rule.
func ruleOfAgent(s string) (inner string, ok bool) {
	name, rest, found := strings.Cut(s, "(")
	if inner, ok = strings.CutSuffix(rest, ")"); !found || !ok || !slices.Contains(toolsOfAgents, name) {
		return "", false
	}
	return strings.TrimPrefix(strings.TrimPrefix(inner, "./"), "domain:"), true
}

// compile checks the entries of the lists and compiles globs and patterns.
func (r *Rule) compile(fail func(attribute, format string, a ...any)) {
	for _, t := range r.Tools {
		if !doublestar.ValidatePattern(t) {
			fail("tool", "%q is not a valid glob. Use *, ?, [a-z] and {a,b}", t)
		}
	}
	r.globs = nil
	for _, g := range r.Paths {
		if !doublestar.ValidatePattern(g) {
			fail("path", "%q is not a valid glob. Use *, ?, [a-z], {a,b} and ** for any number of directories", g)
			continue
		}
		pg, err := newPathGlob(g)
		if err != nil {
			fail("path", "%w", err)
		}
		r.globs = append(r.globs, pg)
	}
	r.patterns = nil
	for _, c := range r.Commands {
		p, err := shellscript.ParsePattern(c)
		if err != nil {
			fail("command", "%q cannot match a command: %w", c, err)
		}
		r.patterns = append(r.patterns, p)
	}
	for _, b := range r.Builtins {
		if b != "" && !slices.Contains(builtinNames(), b) {
			fail("builtin", "unknown built-in rule %q.%s The built-in rules are %s", b, suggest.DidYouMean(b, builtinNames()), strings.Join(builtinNames(), ", "))
		}
	}
	for _, t := range r.Traits {
		if t != "" && traits[t] == nil {
			names := slices.Sorted(maps.Keys(traits))
			fail("trait", "unknown trait %q.%s The traits are %s", t, suggest.DidYouMean(t, names),
				strings.Join(names, ", "))
		}
	}
	for _, d := range r.Domains {
		if err := validDomain(d); err != nil {
			fail("domain", "%w", err)
		}
	}
}

func newPathGlob(g string) (pathGlob, error) {
	switch {
	case g == "~" || strings.HasPrefix(g, "~/"):
		home := homeDir()
		if home == "" {
			return pathGlob{}, fmt.Errorf("%q needs a home directory, but $HOME is not set. Write an absolute path", g)
		}
		return pathGlob{glob: escapeGlob(home) + g[1:]}, nil
	case filepath.IsAbs(g) || strings.HasPrefix(g, "**"):
		if g != filepath.Clean(g) && strings.TrimSuffix(g, "/") != filepath.Clean(g) {
			return pathGlob{}, fmt.Errorf("%q can never match: paths are compared without \".\", \"..\" and doubled slashes. Write %q", g, filepath.Clean(g))
		}
		return pathGlob{glob: strings.TrimSuffix(g, "/")}, nil
	case !strings.Contains(strings.TrimSuffix(g, "/"), "/"):
		return pathGlob{glob: "**/" + strings.TrimSuffix(g, "/")}, nil
	}
	clean := filepath.Clean(g)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return pathGlob{}, fmt.Errorf("%q leaves the workspace. Write an absolute path", g)
	}
	return pathGlob{glob: clean, relative: true}, nil
}

func escapeGlob(s string) string {
	var out strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`*?[]{}\`, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

func validDomain(d string) error {
	rest := strings.TrimPrefix(d, "*.")
	if strings.ContainsAny(rest, "/:@ ") {
		return fmt.Errorf("%q is not a domain. Write only the host, such as example.org or *.example.org", d)
	}
	if strings.Contains(rest, "*") && d != "*" {
		return errors.New("a * is allowed only at the beginning of a domain, as in *.example.org")
	}
	return nil
}

func (r *Rule) names(kind string) bool { return slices.Contains(r.Kinds, kind) }

// aboutCommands reports whether the rule can apply to a command of one of the given tools. Nil means any tool.
func (r *Rule) aboutCommands(shells []string) bool {
	return (r.Kinds == nil || r.names(KindBash)) &&
		(r.Tools == nil || shells == nil || slices.ContainsFunc(r.Tools, func(g string) bool {
			return slices.ContainsFunc(shells, func(name string) bool { return doublestar.MatchUnvalidated(g, name) })
		}))
}

// matchTool reports whether a glob of the rule matches the name in a part of a call. The names of the prompts and
// resources of a field contain slashes. A glob such as "github:*" matches them, too. In a rule that denies or asks,
// each * matches slashes in such names, so that "github:resource/*" covers every resource. In a rule that allows, a *
// in a glob with slashes ends at a slash.
func (r *Rule) matchTool(glob string, p *part) bool {
	if doublestar.MatchUnvalidated(glob, p.tool) {
		return true
	}
	if p.kind != KindRelay {
		return false
	}
	flat := strings.ReplaceAll(p.tool, "/", "_")
	return doublestar.MatchUnvalidated(glob, flat) ||
		r.Effect != Allow && doublestar.MatchUnvalidated(strings.ReplaceAll(glob, "/", "_"), flat)
}

// match reports whether a rule applies to a part of a call.
func (r *Rule) match(req *Request, p *part) shellscript.Match {
	if r.Tools != nil && !slices.ContainsFunc(r.Tools, func(g string) bool { return r.matchTool(g, p) }) {
		return shellscript.No
	}
	switch {
	case req.Definition != nil:
		if !r.MatchTraits(req.Definition.Traits) {
			return shellscript.No
		}
	case r.Traits != nil && (r.Commands == nil || r.Effect == Allow):
		return shellscript.No // a program in a command has no tool traits
	}
	outside := false // whether the rule concerns only paths outside the roots
	if r.Kinds != nil && !r.names(p.kind) {
		if outside = p.shell && r.Effect != Allow && r.names(KindExternal); !outside {
			return shellscript.No
		}
	}
	best := shellscript.Yes
	if r.patterns != nil {
		best = r.matchCommand(p)
	}
	if best != shellscript.No && r.Builtins != nil {
		best = min(best, p.matchBuiltins(r.Builtins))
	}
	switch {
	case best == shellscript.No:
	case outside:
		best = min(best, r.matchOutside(req, p))
	case r.globs != nil:
		best = min(best, r.matchPaths(req, p))
	}
	if best != shellscript.No && r.Domains != nil && !r.matchDomains(p) {
		return shellscript.No
	}
	return best
}

// traits maps the trait names in rules to functions that read the trait.
var traits = map[string]func(t tool.Traits) bool{
	"read_only":        func(t tool.Traits) bool { return t.ReadOnly },
	"concurrency_safe": func(t tool.Traits) bool { return t.ConcurrencySafe },
	"dangerous":        func(t tool.Traits) bool { return t.Dangerous },
	"auto_execute":     func(t tool.Traits) bool { return t.AutoExecute },
	"idempotent":       func(t tool.Traits) bool { return t.Idempotent },
}

// MatchTraits reports whether the rule applies to tools with these traits. A rule without traits applies to all tools.
func (r *Rule) MatchTraits(t tool.Traits) bool {
	return r.Traits == nil || slices.ContainsFunc(r.Traits, func(name string) bool { return traits[name](t) })
}

func (r *Rule) matchCommand(p *part) shellscript.Match {
	if p.command == nil {
		return shellscript.No
	}
	best := shellscript.No
	for _, pattern := range r.patterns {
		if r.Effect != Allow {
			best = max(best, p.match(pattern))
		} else if p.exact(pattern) {
			best = shellscript.Yes
		}
	}
	return best
}

// matchPaths reports whether the globs of the rule match the paths of a part. An allow rule must match all paths. Any
// other rule must match at least one path. The result is Maybe if only a path that is unknown before the command runs
// can match.
func (r *Rule) matchPaths(req *Request, p *part) shellscript.Match {
	is := func(path string) bool { return r.matchPath(req, path) }
	if r.Effect == Allow {
		if len(p.paths) == 0 || len(p.loose) > 0 ||
			slices.ContainsFunc(p.paths, func(path string) bool { return !is(path) }) {
			return shellscript.No
		}
		return shellscript.Yes
	}
	switch {
	case slices.ContainsFunc(p.paths, is) || slices.ContainsFunc(p.written, is):
		return shellscript.Yes
	case slices.ContainsFunc(p.loose, func(l loosePath) bool { return r.canMatch(req, l) }):
		return shellscript.Maybe
	}
	return shellscript.No
}

// matchOutside reports whether the rule matches a path of the command that is outside of the roots.
func (r *Rule) matchOutside(req *Request, p *part) shellscript.Match {
	switch {
	case slices.ContainsFunc(p.outside, func(path string) bool { return r.globs == nil || r.matchPath(req, path) }):
		return shellscript.Yes
	case slices.ContainsFunc(p.loose,
		func(l loosePath) bool { return l.external(req) && (r.globs == nil || r.canMatch(req, l)) }):
		return shellscript.Maybe
	}
	return shellscript.No
}

func (r *Rule) matchPath(req *Request, path string) bool {
	original := req.original(path)
	return slices.ContainsFunc(r.globs, func(g pathGlob) bool {
		return g.match(req.Workspace, path) || original != path && g.match(req.original(req.Workspace), original)
	})
}

// original converts a path in a copy of the workspace to the path in the workspace, because rules can name
// paths of the workspace.
func (req *Request) original(path string) string {
	if req.Call == nil {
		return path
	}
	return scratch.Original(req.Call.Roots, path)
}

// canMatch reports whether a path that is unknown before the command runs can match the globs of the rule.
func (r *Rule) canMatch(req *Request, l loosePath) bool {
	return slices.ContainsFunc(r.globs, func(g pathGlob) bool {
		glob := g.glob
		if g.relative {
			glob = escapeGlob(req.Workspace) + "/" + glob
		}
		return slices.ContainsFunc(l.forms, func(form string) bool {
			return overlap(glob, form, l.pattern) || overlap(glob, req.original(form), l.pattern)
		})
	})
}

func (g pathGlob) match(workspace, path string) bool {
	if !g.relative {
		return doublestar.MatchUnvalidated(g.glob, path)
	}
	rel, ok := tool.Root{Path: workspace}.Rel(path)
	return ok && rel != "." && doublestar.MatchUnvalidated(g.glob, rel)
}

func (r *Rule) matchDomains(p *part) bool {
	is := func(host string) bool {
		return slices.ContainsFunc(r.Domains, func(d string) bool {
			suffix, below := strings.CutPrefix(strings.ToLower(d), "*")
			return below && strings.HasSuffix(host, suffix) || host == strings.ToLower(d)
		})
	}
	if len(p.domains) == 0 {
		return false
	}
	if r.Effect == Allow {
		return !slices.ContainsFunc(p.domains, func(h string) bool { return !is(h) })
	}
	return slices.ContainsFunc(p.domains, is)
}

// Shadows reports whether the rule overrides the rule "other" for all calls that the rule "other" matches.
func (r *Rule) Shadows(other *Rule) bool {
	rank := []Effect{Deny, Ask, Allow}
	if slices.Index(rank, r.Effect) >= slices.Index(rank, other.Effect) {
		return false
	}
	within := func(wide, narrow []string) bool {
		return wide == nil ||
			narrow != nil && !slices.ContainsFunc(narrow, func(n string) bool { return !slices.Contains(wide, n) })
	}
	return within(r.Tools, other.Tools) && within(r.Kinds, other.Kinds) && within(r.Paths, other.Paths) &&
		within(r.Commands, other.Commands) && within(r.Domains, other.Domains) && within(r.Builtins, other.Builtins) &&
		within(r.Traits, other.Traits)
}

// outlook reports whether the rule applies to all calls of a tool, or to none. If the arguments decide, the result is
// Maybe.
func (r *Rule) outlook(req *Request, kind string) shellscript.Match {
	whole := part{kind: kind, tool: req.Name}
	paths := takesPaths(req)
	switch {
	case r.Tools != nil && !slices.ContainsFunc(r.Tools, func(g string) bool { return r.matchTool(g, &whole) }),
		!r.MatchTraits(req.Definition.Traits):
		return shellscript.No
	case r.Kinds != nil && !r.names(kind) &&
		(!req.Shell || !r.names(KindEdit) && !r.names(KindExternal) && !r.names("read")):
		return shellscript.No
	case !req.Shell && (r.Commands != nil || r.Paths != nil && !paths || r.Domains != nil && !takesOthers(req) ||
		r.Builtins != nil && !paths):
		return shellscript.No
	case r.Commands != nil || r.Paths != nil || r.Domains != nil || r.Builtins != nil ||
		r.Kinds != nil && !r.names(kind):
		return shellscript.Maybe
	}
	return shellscript.Yes
}
