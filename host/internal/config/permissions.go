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
	Deny  []namedHCL `hcl:"deny,block"`
	Ask   []namedHCL `hcl:"ask,block"`
	Allow []namedHCL `hcl:"allow,block"`
	Tests []namedHCL `hcl:"test,block"`
	Rest  hcl.Body   `hcl:",remain"`
}

// permissionsTable lists the attributes of the permissions block. Package privilege compares the lists together with
// the rules, because each list is also a rule.
var permissionsTable = newTable(
	row("policy", choice(func(p *Permissions) *string { return &p.Policy }, Policies...), ranked(Policies...),
		`"open"`, "Mode of the built-in rules: open denies what destroys the system and asks before all of a workspace or repository is lost, careful also asks before work is lost or data leaves the machine, listed is careful and runs only listed programs."),
	row("default", choice(func(p *Permissions) *string { return &p.Default }, "allow", "ask", "deny"), ranked("allow", "ask", "deny"), `"allow"`, "Decision on a call that no rule matches: allow, ask or deny."),
	row("commands", either(func(p *Permissions) *bool { return &p.AllowList }, "rules", "allow-list"), compared, `"rules"`, "Rule for commands: rules, or allow-list, which is the same as the mode listed of programs."),
	row("builtin", not(func(p *Permissions) *bool { return &p.NoBuiltin }), lower, "true", "Whether the built-in rules apply."),
	nested[Permissions]("programs", "Programs that commands can run."),
	row("programs.mode", either(func(p *Permissions) *bool { return &p.Programs.Listed }, "open", "listed"), compared, `"open"`, "Programs that can run: open allows all that no rule denies, listed only those that an allow or ask rule lists."),
	row("programs.allow", texts(func(p *Permissions) *[]string { return &p.Programs.Allow }), compared, "[]", "Patterns of commands that can run."),
	row("programs.ask", texts(func(p *Permissions) *[]string { return &p.Programs.Ask }), compared, "[]", "Patterns of commands that a person must confirm."),
	row("programs.deny", texts(func(p *Permissions) *[]string { return &p.Programs.Deny }), compared, "[]", "Patterns of commands that cannot run."),
	nested[Permissions]("paths", "Paths that tools cannot use."),
	row("paths.deny", listOf("list(string)", func(p *Permissions) *[]string { return &p.Paths.Deny }, (*decoder).someFiles), compared, "[]", "Globs over paths that tools cannot read or write."),
	row("paths.protect", listOf("list(string)", func(p *Permissions) *[]string { return &p.Paths.Protect }, (*decoder).someFiles), compared, "[]", "Globs over paths that tools cannot write."),
	row("paths.writable", listOf("list(string)", func(p *Permissions) *[]string { return &p.Paths.Writable }, (*decoder).protectedNames), longer,
		"[]", "Names of settings of editors and agents that tools can write. Without it they are protected."),
)

var ruleTable = newTable(
	row("tool", texts(func(r *PermissionRule) *[]string { return &r.Tools }), compared, "(any)", "Globs over names of tools."),
	row("kind", texts(func(r *PermissionRule) *[]string { return &r.Kinds }), compared, "(any)", "Kinds of calls: bash, edit, external_directory, or the name of a tool."),
	row("path", texts(func(r *PermissionRule) *[]string { return &r.Paths }), compared, "(any)", "Globs over paths."),
	row("command", texts(func(r *PermissionRule) *[]string { return &r.Commands }), compared, "(any)", "Patterns of commands."),
	row("domain", texts(func(r *PermissionRule) *[]string { return &r.Domains }), compared, "(any)", "Patterns of domains."),
	row("builtin", texts(func(r *PermissionRule) *[]string { return &r.Builtins }), compared, "(any)", "Names of built-in rules. The rule matches the commands that they match, and decides in their place."),
	row("starts", texts(func(r *PermissionRule) *[]string { return &r.Starts }), compared, "[]", "Names of programs that the programs of the rule can start in the mode listed."),
	row("trait", texts(func(r *PermissionRule) *[]string { return &r.Traits }), compared, "(any)", "Traits of tools: read_only, concurrency_safe, dangerous, auto_execute or idempotent."),
	row("set", custom("object", func(r *PermissionRule) *map[string]json.RawMessage { return &r.Set }, func(d *decoder, a *hcl.Attribute, to *PermissionRule) { to.Set = d.values(a.Expr) }), compared,
		"{}", "Values of parameters that replace those of the call."),
	row("reason", plain("string", func(r *PermissionRule) *string { return &r.Reason }), free, `""`, "Reason that the message of the decision contains."),
	row("show", custom("string", func(r *PermissionRule) *string { return &r.Show },
		func(d *decoder, a *hcl.Attribute, to *PermissionRule) {
			if to.Show = d.choice(a.Expr, "", "diff", "command"); to.Show == "command" {
				to.Show = ""
			}
		}), compared,
		`"command"`, "What an ask shows. diff: the command runs on a copy of the files first, and the ask shows what it changes; only for commands."),
)

var testTable = newTable(
	row("command", plain("string", func(t *PermissionTest) *string { return &t.Command }), free, "", "The command.", required),
	row("expect", choice(func(t *PermissionTest) *string { return &t.Expect }, "allow", "ask", "deny"), free, "", "Expected decision: allow, ask or deny.", needed),
	row("rule", plain("string", func(t *PermissionTest) *string { return &t.Rule }), free, `""`, "Name of the rule that must decide."),
	row("unknown", plain("bool", func(t *PermissionTest) **bool { return &t.Unknown }), free, "(any)", "Whether the decision must contain parts that cannot be known."),
)

func (d *decoder) permissions(p *permissionsHCL) {
	out := &d.cfg.Permissions
	out.Default = "allow"
	at := permissionsTable.read(d, p.Rest, out)
	seen := make(map[string]hcl.Range)
	for _, l := range []struct {
		effect string
		blocks []namedHCL
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
	out.Rules = append(out.Rules, out.programRules(at)...)
	if out.Policy == "listed" {
		if mode, given := at["programs.mode"]; given && !out.Programs.Listed {
			d.fail(mode, `The mode "open" contradicts policy = "listed"`, "Remove one of both.")
		}
		out.list(at["policy"])
	}
	out.Rules = append(out.Rules, out.pathRules(at)...)
	d.listed(at, out)
	d.effective(at, out)
	out.Tests = d.tests(p.Tests)
}

// effective reports an error if a list of allowed programs has no effect, because all programs are allowed. Operators
// could mistake such a list for a restriction.
func (d *decoder) effective(at map[string]hcl.Range, out *Permissions) {
	if len(out.Programs.Allow) == 0 || out.Programs.Listed || out.AllowList || out.Policy == "careful" ||
		out.Default != "allow" {
		return
	}
	if !slices.ContainsFunc(out.Rules, func(r PermissionRule) bool { return r.Effect == "ask" }) {
		d.fail(at["programs.allow"], "programs { allow } has no effect", "All programs are allowed already. To allow only these programs, add mode = \"listed\". To keep all programs, remove the list.")
	}
}

// listed reports an error if the mode "listed" contains no programs or allows all programs.
func (d *decoder) listed(at map[string]hcl.Range, out *Permissions) {
	if !out.Programs.Listed {
		return
	}
	mode, given := at["programs.mode"]
	if !given {
		mode = at["policy"]
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
		d.fail(mode, `The mode "listed" has no programs`, "List the programs that can run: allow = [\"ls *\", \"git status *\"].")
	}
}

// programRules returns the rules for the lists of programs. The argument "at" contains the positions of the lists.
func (p *Permissions) programRules(at map[string]hcl.Range) (rules []PermissionRule) {
	for _, l := range []struct {
		effect string
		list   []string
	}{{"deny", p.Programs.Deny}, {"ask", p.Programs.Ask}, {"allow", p.Programs.Allow}} {
		if at, given := at["programs."+l.effect]; given {
			rules = append(rules, PermissionRule{
				Effect: l.effect, Name: "programs." + l.effect, Commands: l.list, List: true, at: at,
				attributes: map[string]hcl.Range{"command": at},
			})
		}
	}
	return rules
}

// pathRules returns the rules for the lists of paths. The argument "at" contains the positions of the lists.
func (p *Permissions) pathRules(at map[string]hcl.Range) (rules []PermissionRule) {
	for _, l := range []struct {
		name, reason string
		list, kinds  []string
	}{
		{"paths.deny", "tools cannot use this path", p.Paths.Deny, nil},
		{"paths.protect", "tools cannot change this path", p.Paths.Protect, []string{"edit"}},
	} {
		if at, given := at[l.name]; given {
			rules = append(rules, PermissionRule{
				Effect: "deny", Name: l.name, Reason: l.reason, Paths: l.list, Kinds: l.kinds, List: true, at: at,
				attributes: map[string]hcl.Range{"path": at},
			})
		}
	}
	return rules
}

// someFiles evaluates a list of globs for paths. A glob that matches every path is an error.
func (d *decoder) someFiles(e hcl.Expression) []string {
	list := d.texts(e)
	for _, g := range list {
		if everything(g) {
			d.tooWide(e.Range(), g)
		}
	}
	return list
}

// protectedNames evaluates a list of names of protected settings.
func (d *decoder) protectedNames(e hcl.Expression) []string {
	list := d.texts(e)
	for _, name := range list {
		if !slices.Contains(sandbox.Settings, name) {
			d.fail(e.Range(), fmt.Sprintf("%q is not protected", name), "Use names of protected settings: %s.",
				strings.Join(sandbox.Settings, ", "))
		}
	}
	return list
}

// everything reports whether a glob matches every path in a directory.
func everything(glob string) bool {
	glob = strings.TrimPrefix(glob, "/")
	return glob != "" && doublestar.ValidatePattern(glob) && doublestar.MatchUnvalidated(glob, "\x02") &&
		doublestar.MatchUnvalidated(glob, "\x03.\x04") ||
		strings.HasPrefix(glob, "**") && doublestar.ValidatePattern(glob) &&
			doublestar.MatchUnvalidated(glob, "\x02/\x03") && doublestar.MatchUnvalidated(glob, "\x02/\x03.\x04")
}

func (d *decoder) rule(effect string, b *namedHCL) PermissionRule {
	r := PermissionRule{Effect: effect, Name: b.Name, at: b.At}
	r.attributes = ruleTable.read(d, b.Rest, &r)
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

func (d *decoder) tests(blocks []namedHCL) (out []PermissionTest) {
	for _, b := range blocks {
		test := PermissionTest{Name: b.Name, At: place(b.At)}
		if _, given := testTable.read(d, b.Rest, &test)["expect"]; !given && !d.diags.HasErrors() {
			d.fail(b.At, fmt.Sprintf("Test %q expects nothing", b.Name), "Say what the rules are meant to make of it: expect = \"deny\", \"ask\" or \"allow\".")
		}
		out = append(out, test)
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
	d := &decoder{ctx: evalContext(filepath.Dir(file), Environment{}, func(string, []byte) {}), diags: diags,
		cfg: &Config{files: p.Sources()}}
	var out []PermissionTest
	if !diags.HasErrors() {
		var content struct {
			Tests []namedHCL `hcl:"test,block"`
		}
		d.add(gohcl.DecodeBody(f.Body, d.ctx, &content))
		if !d.diags.HasErrors() {
			out = d.tests(content.Tests)
		}
	}
	if problems := d.problems(); problems.HasErrors() {
		return nil, d.cfg.failed(problems)
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
