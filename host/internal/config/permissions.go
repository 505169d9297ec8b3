package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/sandbox"
)

// Permissions configures the permission rules for calls.
type Permissions struct {
	// Policy is the mode of the built-in rules: "open", "careful" or "listed", in ascending order of restrictions.
	// Empty means "open".
	Policy string
	// Default is the decision about calls without a matching rule: "allow", "ask" or "deny".
	Default string
	// AllowList denies every command without a matching allow rule.
	AllowList bool
	// NoBuiltin disables the built-in rules.
	NoBuiltin bool
	Rules     []PermissionRule
	// Project contains the deny and ask rules of a project file. These rules cannot permit a call that Rules or Default
	// deny.
	Project []PermissionRule
	// Programs lists the programs that commands can run. Paths restricts paths. Each list in these fields is also a
	// rule in Rules or Project; see [PermissionRule.List].
	Programs Programs
	Paths    Paths
	Tests    []PermissionTest
}

// Programs configures which programs commands can run.
type Programs struct {
	// Listed denies every program that no allow or ask rule lists.
	Listed           bool
	Allow, Ask, Deny []string
}

// Paths configures paths that tools cannot read or write. The lists contain globs as in [PermissionRule.Paths].
type Paths struct {
	// Deny lists paths that tools cannot read or write. Protect lists paths that tools cannot write.
	Deny, Protect []string
	// Writable lists settings of other programs, such as editors. Tools can change these settings, although package
	// paths protects settings by default.
	Writable []string
}

// PermissionRule is a permission rule. A nil list matches every call.
type PermissionRule struct {
	// Effect is "allow", "ask" or "deny".
	Effect, Name                           string
	Tools, Kinds, Paths, Commands, Domains []string
	// Traits contains names of traits of tools.
	Traits []string
	// Builtins contains names of built-in rules that the rule replaces.
	Builtins []string
	// Starts contains names of programs that the listed programs can start.
	Starts []string
	// List reports that the rule comes from a list in [Programs] or [Paths].
	List   bool
	Reason string
	// Show is "diff" if the rule asks a person and shows them what the command would change before they answer.
	// Otherwise it is empty.
	Show string
	// Set maps parameters to JSON values. The rule sets these parameters in matching calls.
	Set map[string]json.RawMessage

	at         position
	attributes map[string]hcl.Range
}

// PermissionTest is a test case for the rules. It contains the expected decision about a command.
type PermissionTest struct {
	Name, Command string
	// Expect is "allow", "ask" or "deny".
	Expect string
	// Rule is the name of the rule that must make the decision. Empty means that any rule can make the decision.
	Rule string
	// Unknown is true if the decision must contain unknown parts, and false if it must contain none. Nil accepts both.
	Unknown *bool
	// At is the position of the test, as "file:line".
	At string
}

type permissionsHCL struct {
	Policy   hcl.Expression `hcl:"policy,optional"`
	Default  hcl.Expression `hcl:"default,optional"`
	Commands hcl.Expression `hcl:"commands,optional"`
	Builtin  *bool          `hcl:"builtin,optional"`
	Deny     []ruleHCL      `hcl:"deny,block"`
	Ask      []ruleHCL      `hcl:"ask,block"`
	Allow    []ruleHCL      `hcl:"allow,block"`
	Programs *programsHCL   `hcl:"programs,block"`
	Paths    *pathsHCL      `hcl:"paths,block"`
	Tests    []testHCL      `hcl:"test,block"`
}

type programsHCL struct {
	Mode  hcl.Expression `hcl:"mode,optional"`
	Allow hcl.Expression `hcl:"allow,optional"`
	Ask   hcl.Expression `hcl:"ask,optional"`
	Deny  hcl.Expression `hcl:"deny,optional"`
	At    hcl.Range      `hcl:",def_range"`
}

type pathsHCL struct {
	Deny     hcl.Expression `hcl:"deny,optional"`
	Protect  hcl.Expression `hcl:"protect,optional"`
	Writable hcl.Expression `hcl:"writable,optional"`
	At       hcl.Range      `hcl:",def_range"`
}

type ruleHCL struct {
	Name    string         `hcl:"name,label"`
	Tool    hcl.Expression `hcl:"tool,optional"`
	Kind    hcl.Expression `hcl:"kind,optional"`
	Path    hcl.Expression `hcl:"path,optional"`
	Command hcl.Expression `hcl:"command,optional"`
	Domain  hcl.Expression `hcl:"domain,optional"`
	Builtin hcl.Expression `hcl:"builtin,optional"`
	Starts  hcl.Expression `hcl:"starts,optional"`
	Trait   hcl.Expression `hcl:"trait,optional"`
	Set     hcl.Expression `hcl:"set,optional"`
	Reason  string         `hcl:"reason,optional"`
	Show    hcl.Expression `hcl:"show,optional"`
	At      hcl.Range      `hcl:",def_range"`
}

type testHCL struct {
	Name    string         `hcl:"name,label"`
	Command string         `hcl:"command"`
	Expect  hcl.Expression `hcl:"expect"`
	Rule    string         `hcl:"rule,optional"`
	Unknown *bool          `hcl:"unknown,optional"`
	At      hcl.Range      `hcl:",def_range"`
}

func (d *decoder) permissions(p *permissionsHCL) {
	out := &d.cfg.Permissions
	out.Policy = d.choice(p.Policy, "", Policies...)
	out.Default = d.choice(p.Default, "allow", "allow", "ask", "deny")
	out.AllowList = d.choice(p.Commands, "rules", "rules", "allow-list") == "allow-list"
	out.NoBuiltin = p.Builtin != nil && !*p.Builtin
	seen := make(map[string]hcl.Range)
	for _, l := range []struct {
		effect string
		blocks []ruleHCL
	}{{"deny", p.Deny}, {"ask", p.Ask}, {"allow", p.Allow}} {
		for i := range l.blocks {
			b := &l.blocks[i]
			if first, dup := seen[b.Name]; dup {
				d.fail(b.At, fmt.Sprintf("There are two rules %q", b.Name), "The first is at %s:%d. Give this one another name.", first.Filename, first.Start.Line)
				continue
			}
			seen[b.Name] = b.At
			out.Rules = append(out.Rules, d.rule(l.effect, b))
		}
	}
	out.Rules = append(out.Rules, d.programs(p.Programs, out)...)
	if out.Policy == "listed" {
		if p.Programs != nil && given(p.Programs.Mode) && !out.Programs.Listed {
			d.fail(p.Programs.Mode.Range(), `The mode "open" contradicts policy = "listed"`, "Remove one of both.")
		}
		out.list(p.Policy.Range())
	}
	out.Rules = append(out.Rules, d.paths(p.Paths, out)...)
	d.listed(p, out)
	d.effective(p, out)
	out.Tests = d.tests(p.Tests)
}

// effective reports an error if a list of allowed programs has no effect, because all programs are allowed. Operators
// could mistake such a list for a restriction.
func (d *decoder) effective(p *permissionsHCL, out *Permissions) {
	if len(out.Programs.Allow) == 0 || out.Programs.Listed || out.AllowList || out.Policy == "careful" || out.Default != "allow" {
		return
	}
	if !slices.ContainsFunc(out.Rules, func(r PermissionRule) bool { return r.Effect == "ask" }) {
		d.fail(p.Programs.Allow.Range(), "programs { allow } has no effect", "All programs are allowed already. To allow only these programs, add mode = \"listed\". To keep all programs, remove the list.")
	}
}

// listed reports an error if the mode "listed" contains no programs or allows all programs.
func (d *decoder) listed(p *permissionsHCL, out *Permissions) {
	if !out.Programs.Listed {
		return
	}
	at := p.Policy.Range()
	if p.Programs != nil && given(p.Programs.Mode) {
		at = p.Programs.Mode.Range()
	}
	programs := false
	for i := range out.Rules {
		r := &out.Rules[i]
		if r.Effect == "deny" {
			continue
		}
		programs = programs || len(r.Commands) > 0
		if slices.Contains(r.Commands, "*") {
			d.fail(r.attributes["command"], `The pattern "*" lists every program`, "List the programs that can run, such as \"git status *\", or remove mode = \"listed\".")
		}
	}
	if !programs {
		d.fail(at, `The mode "listed" has no programs`, "List the programs that can run: allow = [\"ls *\", \"git status *\"].")
	}
}

// programs decodes the "programs" block. It returns the rules for the lists in the block.
func (d *decoder) programs(b *programsHCL, out *Permissions) (rules []PermissionRule) {
	if b == nil {
		return nil
	}
	out.Programs.Listed = d.choice(b.Mode, "open", "open", "listed") == "listed"
	for _, l := range []struct {
		effect string
		expr   hcl.Expression
		into   *[]string
	}{{"deny", b.Deny, &out.Programs.Deny}, {"ask", b.Ask, &out.Programs.Ask}, {"allow", b.Allow, &out.Programs.Allow}} {
		if given(l.expr) {
			*l.into = d.texts(l.expr)
			rules = append(rules, PermissionRule{
				Effect: l.effect, Name: "programs." + l.effect, Commands: *l.into, List: true, at: l.expr.Range(), attributes: map[string]hcl.Range{"command": l.expr.Range()},
			})
		}
	}
	return rules
}

// paths decodes the "paths" block. It returns the rules for the lists in the block.
func (d *decoder) paths(b *pathsHCL, out *Permissions) (rules []PermissionRule) {
	if b == nil {
		return nil
	}
	if given(b.Writable) {
		out.Paths.Writable = d.texts(b.Writable)
		for _, name := range out.Paths.Writable {
			if !slices.Contains(sandbox.Settings, name) {
				d.fail(b.Writable.Range(), fmt.Sprintf("%q is not protected", name), "Use names of protected settings: %s.", strings.Join(sandbox.Settings, ", "))
			}
		}
	}
	for _, l := range []struct {
		name, reason string
		expr         hcl.Expression
		into         *[]string
		kinds        []string
	}{
		{"paths.deny", "tools cannot use this path", b.Deny, &out.Paths.Deny, nil},
		{"paths.protect", "tools cannot change this path", b.Protect, &out.Paths.Protect, []string{"edit"}},
	} {
		if !given(l.expr) {
			continue
		}
		*l.into = d.texts(l.expr)
		for _, g := range *l.into {
			if everything(g) {
				d.fail(l.expr.Range(), fmt.Sprintf("The glob %q matches every path", g), "Name the files or directories: \"**/.env\", \"secrets/**\".")
			}
		}
		rules = append(rules, PermissionRule{
			Effect: "deny", Name: l.name, Reason: l.reason, Paths: *l.into, Kinds: l.kinds, List: true, at: l.expr.Range(), attributes: map[string]hcl.Range{"path": l.expr.Range()},
		})
	}
	return rules
}

// everything reports whether a glob matches every path in a directory.
func everything(glob string) bool {
	glob = strings.TrimPrefix(glob, "/")
	return glob != "" && doublestar.ValidatePattern(glob) && doublestar.MatchUnvalidated(glob, "\x02") && doublestar.MatchUnvalidated(glob, "\x03.\x04") ||
		strings.HasPrefix(glob, "**") && doublestar.ValidatePattern(glob) && doublestar.MatchUnvalidated(glob, "\x02/\x03") && doublestar.MatchUnvalidated(glob, "\x02/\x03.\x04")
}

func (d *decoder) rule(effect string, b *ruleHCL) PermissionRule {
	r := PermissionRule{Effect: effect, Name: b.Name, Reason: b.Reason, at: b.At, attributes: make(map[string]hcl.Range)}
	for _, a := range []struct {
		name string
		expr hcl.Expression
		into *[]string
	}{{"tool", b.Tool, &r.Tools}, {"kind", b.Kind, &r.Kinds}, {"path", b.Path, &r.Paths}, {"command", b.Command, &r.Commands}, {"domain", b.Domain, &r.Domains}, {"builtin", b.Builtin, &r.Builtins}, {"starts", b.Starts, &r.Starts}, {"trait", b.Trait, &r.Traits}} {
		if given(a.expr) {
			r.attributes[a.name] = a.expr.Range()
			*a.into = d.texts(a.expr)
		}
	}
	if given(b.Show) {
		r.attributes["show"] = b.Show.Range()
		if r.Show = d.choice(b.Show, "", "diff", "command"); r.Show == "command" {
			r.Show = ""
		}
	}
	if given(b.Set) {
		r.attributes["set"] = b.Set.Range()
		r.Set = d.values(b.Set)
	}
	return r
}

// texts evaluates a string or a list of strings.
func (d *decoder) texts(e hcl.Expression) []string {
	v, diags := e.Value(d.ctx)
	if !diags.HasErrors() && v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
		return []string{v.AsString()}
	}
	out := []string{}
	d.add(gohcl.DecodeExpression(e, d.ctx, &out))
	return out
}

// values evaluates an object and returns its attributes in JSON.
func (d *decoder) values(e hcl.Expression) map[string]json.RawMessage {
	v, diags := e.Value(d.ctx)
	d.add(diags)
	if diags.HasErrors() {
		return nil
	}
	if !v.Type().IsObjectType() || !v.IsWhollyKnown() || v.IsNull() {
		d.fail(e.Range(), "The parameters to set are not an object", "Write them as set = { timeout = 1000 }.")
		return nil
	}
	out := make(map[string]json.RawMessage)
	for name, value := range v.AsValueMap() {
		b, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			d.fail(e.Range(), fmt.Sprintf("The value of %q cannot be passed on", name), "%v", err)
			continue
		}
		out[name] = b
	}
	return out
}

func (d *decoder) tests(blocks []testHCL) []PermissionTest {
	var out []PermissionTest
	for _, b := range blocks {
		if !given(b.Expect) {
			d.fail(b.At, fmt.Sprintf("Test %q expects nothing", b.Name), "Say what the rules are meant to make of it: expect = \"deny\", \"ask\" or \"allow\".")
			continue
		}
		out = append(out, PermissionTest{Name: b.Name, Command: b.Command, Expect: d.choice(b.Expect, "", "allow", "ask", "deny"), Rule: b.Rule, Unknown: b.Unknown, At: place(b.At)})
	}
	return out
}

// place returns a position as "file:line".
func place(at position) string {
	if at.Filename == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", filepath.Clean(at.Filename), at.Start.Line)
}

// LoadTests reads a file that contains only test blocks.
func LoadTests(file string) ([]PermissionTest, error) {
	p := hclparse.NewParser()
	f, diags := parseFile(p, file)
	d := &decoder{ctx: evalContext(filepath.Dir(file), Environment{}, func(string, []byte) {}), diags: diags, cfg: &Config{files: p.Sources()}}
	var out []PermissionTest
	if !diags.HasErrors() {
		var content struct {
			Tests []testHCL `hcl:"test,block"`
		}
		d.add(gohcl.DecodeBody(f.Body, d.ctx, &content))
		if !d.diags.HasErrors() {
			out = d.tests(content.Tests)
		}
	}
	if d.diags.HasErrors() {
		return nil, d.cfg.failed(d.diags)
	}
	return out, nil
}

// Same reports whether two rules are equal except for their positions.
func (r *PermissionRule) Same(other *PermissionRule) bool {
	x, y := *r, *other
	for _, r := range []*PermissionRule{&x, &y} {
		r.at, r.attributes = position{}, nil
	}
	return reflect.DeepEqual(x, y)
}

// Place returns the position of a rule, as "file:line".
func (r *PermissionRule) Place() string { return place(r.at) }

// RuleProblem describes a mistake in a permission rule.
type RuleProblem struct {
	// Rule is the index of the rule.
	Rule int
	// Attribute is the attribute with the mistake. Empty means that the whole rule is wrong.
	Attribute string
	Why       error
}

// BadRules returns an error that lists the problems, each with its line in the operator's file. It returns nil if there
// are no problems.
func (c *Config) BadRules(problems []RuleProblem) error {
	var diags hcl.Diagnostics
	for _, p := range problems {
		r := &c.Permissions.Rules[p.Rule]
		at, ok := r.attributes[p.Attribute]
		if !ok {
			at = r.at
		}
		what := fmt.Sprintf("The rule %s %q cannot work", r.Effect, r.Name)
		if r.List {
			what = fmt.Sprintf("The list %s cannot work", r.Name)
		}
		diags = append(diags, diagnose.Problemf(at, what, "%s", sentence(p.Why)))
	}
	if len(diags) == 0 {
		return nil
	}
	return c.failed(diags)
}

// sentence formats an error as a sentence.
func sentence(err error) string {
	s := diagnose.Capital(err.Error())
	if strings.HasSuffix(s, "?") || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}
