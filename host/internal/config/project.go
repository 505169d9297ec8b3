package config

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"

	"toolhost.dev/host/internal/config/internal/diagnose"
)

// Narrowing contains the settings of a project file that only restrict tools. It accepts only literal values. Therefore
// an untrusted file cannot read variables, environment variables or other files.
type Narrowing struct {
	// Complete reports whether all settings of the file are restrictions.
	Complete bool
	// Syntax is the syntax error of the file. Nil means that it can be parsed.
	Syntax error

	texts  diagnose.Files
	config *Config
	// These fields report which attributes the file sets. They are needed because a zero value can be a valid setting.
	strict, workspace, enforce, defaults, allowList, listed, bundled bool
	// The fields "off" and "on" contain the names of the plugins that the file turns off, and of those that it
	// configures.
	off, on []string
}

// projectHCL contains the blocks of a project file that can restrict tools.
type projectHCL struct {
	Permissions *narrowPermissionsHCL `hcl:"permissions,block"`
	Sandbox     *narrowSandboxHCL     `hcl:"sandbox,block"`
	Tools       []narrowToolHCL       `hcl:"tool,block"`
	Bundled     hcl.Expression        `hcl:"bundled,optional"`
	Plugins     []narrowPluginHCL     `hcl:"plugin,block"`
	Rest        hcl.Body              `hcl:",remain"`
}

type narrowPermissionsHCL struct {
	Policy   hcl.Expression `hcl:"policy,optional"`
	Default  hcl.Expression `hcl:"default,optional"`
	Commands hcl.Expression `hcl:"commands,optional"`
	Deny     []namedHCL     `hcl:"deny,block"`
	Ask      []namedHCL     `hcl:"ask,block"`
	Tests    []namedHCL     `hcl:"test,block"`
	Programs []struct {
		Mode hcl.Expression `hcl:"mode,optional"`
		Ask  hcl.Expression `hcl:"ask,optional"`
		Deny hcl.Expression `hcl:"deny,optional"`
		Rest hcl.Body       `hcl:",remain"`
	} `hcl:"programs,block"`
	Paths []struct {
		Deny    hcl.Expression `hcl:"deny,optional"`
		Protect hcl.Expression `hcl:"protect,optional"`
		Rest    hcl.Body       `hcl:",remain"`
	} `hcl:"paths,block"`
	Rest hcl.Body `hcl:",remain"`
}

type narrowSandboxHCL struct {
	Workspace hcl.Expression `hcl:"workspace,optional"`
	Paths     hcl.Expression `hcl:"paths,optional"`
	Deny      hcl.Expression `hcl:"deny,optional"`
	Enforce   hcl.Expression `hcl:"enforce,optional"`
	Rest      hcl.Body       `hcl:",remain"`
}

type narrowToolHCL struct {
	Name string    `hcl:"name,label"`
	Rest hcl.Body  `hcl:",remain"`
	At   hcl.Range `hcl:",def_range"`
}

// narrowPluginHCL is a plugin block in a project file. Its only valid setting turns off a bundled plugin.
type narrowPluginHCL struct {
	Name    string         `hcl:"name,label"`
	Enabled hcl.Expression `hcl:"enabled,optional"`
	Rest    hcl.Body       `hcl:",remain"`
}

// ReadNarrowing reads the restrictions in a project file or in a directory of project files. If a setting cannot be
// read, ReadNarrowing skips the setting, and the result is not complete.
func ReadNarrowing(path string) *Narrowing {
	out := &Narrowing{Complete: true, config: &Config{Tools: make(map[string]Tool)}}
	names, err := List(path)
	if err != nil {
		out.Complete = false
		return out
	}
	p := hclparse.NewParser()
	var bodies []*hcl.File
	var all hcl.Diagnostics
	for _, name := range names {
		f, diags := parseFile(p, name)
		all = append(all, diags...)
		if diags.HasErrors() || f == nil {
			out.Complete = false
			continue
		}
		bodies = append(bodies, f)
	}
	out.texts = p.Sources()
	if all.HasErrors() {
		out.Syntax = (&Config{files: p.Sources(), parsed: bodies}).failed(all)
	}
	var f projectHCL
	// Evaluate without variables and functions, so that only literal values are valid.
	if gohcl.DecodeBody(hcl.MergeFiles(bodies), nil, &f).HasErrors() {
		out.Complete = false
		return out
	}
	out.nothingElse(f.Rest)
	if f.Permissions != nil {
		out.permissions(f.Permissions)
	}
	if f.Sandbox != nil {
		out.sandbox(f.Sandbox)
	}
	for i := range f.Tools {
		out.tool(&f.Tools[i])
	}
	out.plugins(&f)
	return out
}

// nothingElse marks the narrowing as incomplete if a block contains a setting that is not a restriction.
func (n *Narrowing) nothingElse(rest hcl.Body) {
	if _, diags := rest.Content(&hcl.BodySchema{}); diags.HasErrors() {
		n.Complete = false
	}
}

// try evaluates a setting and reports whether the setting is a valid restriction. If it is not, try marks the narrowing
// as incomplete.
func (n *Narrowing) try(evaluate func(d *decoder) bool) bool {
	d := &decoder{ctx: &hcl.EvalContext{}, cfg: n.config, dir: "/"}
	ok := evaluate(d) && !d.problems().HasErrors()
	n.Complete = n.Complete && ok
	return ok
}

// word evaluates an optional attribute. It accepts only the given words, which are restrictions.
func (n *Narrowing) word(e hcl.Expression, words ...string) (word string, ok bool) {
	if !given(e) {
		return "", false
	}
	ok = n.try(func(d *decoder) bool {
		word = d.choice(e, "", words...)
		return word != ""
	})
	return word, ok
}

func (n *Narrowing) permissions(p *narrowPermissionsHCL) {
	n.nothingElse(p.Rest)
	out := &n.config.Permissions
	out.Policy, _ = n.word(p.Policy, "careful", "listed")
	out.Default, n.defaults = n.word(p.Default, "ask", "deny")
	_, n.allowList = n.word(p.Commands, "allow-list")
	for _, l := range []struct {
		effect string
		blocks []namedHCL
	}{{"deny", p.Deny}, {"ask", p.Ask}} {
		for i := range l.blocks {
			n.try(func(d *decoder) bool {
				rule := d.rule(l.effect, &l.blocks[i])
				if d.problems().HasErrors() || rule.Set != nil { // a rule that sets parameters is not a restriction
					return false
				}
				rule.Name, rule.Reason = oneLine(rule.Name), oneLine(rule.Reason) // models and terminals display these texts
				out.Project = append(out.Project, rule)
				out.KeepPaths(&rule)
				return true
			})
		}
	}
	n.lists(p)
}

// lists reads the lists of programs and paths, which can only restrict tools.
func (n *Narrowing) lists(p *narrowPermissionsHCL) {
	out := &n.config.Permissions
	for _, b := range p.Programs {
		n.nothingElse(b.Rest)
		if _, ok := n.word(b.Mode, "listed"); ok {
			n.listed = true
		}
		n.try(func(d *decoder) bool {
			var lists Permissions
			at := d.lists(map[string]hcl.Expression{"programs.ask": b.Ask, "programs.deny": b.Deny}, &lists)
			out.Project = append(out.Project, lists.programRules(at)...)
			out.Programs.Deny = append(out.Programs.Deny, lists.Programs.Deny...)
			return true
		})
	}
	for _, b := range p.Paths {
		n.nothingElse(b.Rest)
		n.try(func(d *decoder) bool {
			var lists Permissions
			at := d.lists(map[string]hcl.Expression{"paths.deny": b.Deny, "paths.protect": b.Protect}, &lists)
			if d.problems().HasErrors() {
				return false
			}
			out.Project = append(out.Project, lists.pathRules(at)...)
			out.Paths.Protect = append(out.Paths.Protect, lists.Paths.Protect...)
			out.Paths.Deny = append(out.Paths.Deny, lists.Paths.Deny...)
			return true
		})
	}
}

// lists evaluates some attributes of the permissions block.
func (d *decoder) lists(attributes map[string]hcl.Expression, to *Permissions) (at map[string]hcl.Range) {
	at = make(map[string]hcl.Range)
	for i := range permissionsTable.rows {
		if a := &permissionsTable.rows[i]; given(attributes[a.name]) {
			at[a.name] = attributes[a.name].Range()
			a.decode(d, &hcl.Attribute{Name: a.name, Expr: attributes[a.name]}, to)
		}
	}
	return at
}

func (n *Narrowing) sandbox(s *narrowSandboxHCL) {
	n.nothingElse(s.Rest)
	_, n.workspace = n.word(s.Workspace, "read-only")
	_, n.strict = n.word(s.Paths, "strict")
	_, n.enforce = n.word(s.Enforce, "require")
	n.try(func(d *decoder) bool {
		globs, ok := d.globs(s.Deny)
		if ok {
			n.config.Sandbox.Deny = globs
			n.config.Permissions.narrowPaths(s.Deny.Range(), globs)
		}
		return ok
	})
}

func (n *Narrowing) tool(t *narrowToolHCL) {
	out := Tool{at: t.At}
	n.try(func(d *decoder) bool {
		at := toolTable.read(d, t.Rest, &out)
		return !slices.ContainsFunc(toolTable.rows, func(a attribute[Tool]) bool {
			_, given := at[a.name]
			return given && !a.forbids(&out)
		})
	})
	n.config.Tools[t.Name] = out
}

// plugins reads the settings that turn off bundled plugins.
func (n *Narrowing) plugins(f *projectHCL) {
	isFalse := func(e hcl.Expression) bool {
		return n.try(func(d *decoder) bool {
			var on bool
			return !gohcl.DecodeExpression(e, d.ctx, &on).HasErrors() && !on
		})
	}
	n.bundled = given(f.Bundled) && isFalse(f.Bundled)
	for i := range f.Plugins {
		p := &f.Plugins[i]
		n.nothingElse(p.Rest)
		if !given(p.Enabled) {
			n.Complete, n.on = false, append(n.on, p.Name)
		} else if isFalse(p.Enabled) {
			n.off = append(n.off, p.Name)
		}
	}
}

// turnOff removes the bundled plugins that the file turns off. It keeps the operator's own plugins, because they can
// implement hooks that judge calls. With bundled = false, it also keeps bundled plugins for which the operator or the
// file has a block.
func (n *Narrowing) turnOff(cfg *Config) {
	cfg.Plugins = slices.DeleteFunc(slices.Clone(cfg.Plugins), func(p Plugin) bool {
		off := p.Added && n.bundled && !slices.Contains(n.on, p.Name) ||
			p.Bundled == p.Name && slices.Contains(n.off, p.Name)
		if off {
			cfg.Off = append(cfg.Off, p.Name)
		}
		return off
	})
}

// Rules returns the number of deny and ask rules in the narrowing.
func (n *Narrowing) Rules() int {
	return len(n.config.Permissions.Project)
}

// Empty reports whether the narrowing contains no restrictions.
func (n *Narrowing) Empty() bool {
	return n.Rules() == 0 && len(n.config.Tools) == 0 && !n.strict && !n.workspace && !n.enforce && !n.defaults &&
		!n.allowList && !n.listed && !n.bundled && len(n.off) == 0 && n.config.Permissions.Policy == ""
}

// Apply adds the restrictions to a configuration. Settings of the configuration that are already stricter do not
// change.
func (n *Narrowing) Apply(cfg *Config) {
	cfg.files = maps.Clone(cfg.files)
	maps.Copy(cfg.files, n.texts)
	if n.Empty() {
		return
	}
	n.applyRules(&cfg.Permissions)
	n.turnOff(cfg)
	s := &cfg.Sandbox
	s.Strict = s.Strict || n.strict
	if n.workspace && s.Workspace != "read-only" {
		s.Workspace, s.Narrowed = "read-only", true
	}
	if n.enforce {
		s.Enforce = "require"
		for i := range cfg.Plugins {
			cfg.Plugins[i].Confinement.Enforce = "require"
		}
	}
	s.Deny = slices.Concat(s.Deny, n.config.Sandbox.Deny)
	cfg.Tools = maps.Clone(cfg.Tools)
	for name, is := range n.config.Tools {
		was, known := cfg.Tools[name]
		if !known {
			was.at, was.project = is.at, true
		}
		cfg.Tools[name] = was.Restricted(&is)
	}
}

func (n *Narrowing) applyRules(p *Permissions) {
	order := []string{"", "allow", "ask", "deny"}
	if n.defaults && slices.Index(order, n.config.Permissions.Default) > slices.Index(order, p.Default) {
		p.Default = n.config.Permissions.Default
	}
	if n.config.Permissions.Policy == "listed" && !p.Programs.Listed && !p.AllowList &&
		(p.Default == "" || p.Default == "allow") {
		p.Rules = slices.Clone(p.Rules)
		p.list(position{}) // the lists permit nothing new, because all programs were allowed before
	}
	p.Policy = Stricter(p.Policy, n.config.Permissions.Policy)
	p.Programs.Listed = p.Programs.Listed || p.Policy == "listed"
	p.AllowList = p.AllowList || n.allowList
	p.Programs.Listed = p.Programs.Listed || n.listed
	p.Project = n.config.Permissions.Project
	p.Programs.Deny = slices.Concat(p.Programs.Deny, n.config.Permissions.Programs.Deny)
	p.Paths.Protect = slices.Concat(p.Paths.Protect, n.config.Permissions.Paths.Protect)
	p.Paths.Deny = slices.Concat(p.Paths.Deny, n.config.Permissions.Paths.Deny)
}
