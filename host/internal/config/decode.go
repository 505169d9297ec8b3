package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/host/internal/habit"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/sandbox"
)

// decoder converts configuration files into a [Config] and collects all problems.
type decoder struct {
	ctx *hcl.EvalContext
	// read is called for each file on which the configuration depends.
	read func(path string, text []byte)
	dir  string // base directory of relative paths; empty for the built-in configuration
	env  Environment
	// manifests contains the manifests of the bundled plugins.
	manifests *manifest.Directory
	diags     hcl.Diagnostics
	cfg       *Config
	// bundled contains generated blocks for the bundled plugins that no file configures. added is true while these
	// blocks are being read.
	added   bool
	bundled []byte
	// described caches the information in manifests about the plugins of fields. The key is the path of the
	// plugin.
	described map[string]described
}

func decode(files []*hcl.File, diags hcl.Diagnostics, p *hclparse.Parser, source, dir string, env Environment) (*Config, error) {
	d := &decoder{
		dir: dir, env: env, manifests: manifest.OpenDirectory(env.BundledDir), diags: diags,
		cfg: &Config{Source: source, Host: DefaultHost(), Audit: DefaultAudit(), Workspace: DefaultWorkspace(), Sandbox: Sandbox{Workspace: "read-write", Backend: sandbox.Auto, Enforce: "auto", Repositories: "quarantine"}, Reload: Reload{Watch: true, PrivilegeIncreases: "explicit"}, Tools: make(map[string]Tool), sensitive: make(map[string]bool), parsed: files, dir: dir, bundledDir: env.BundledDir, from: make(map[string]string)},
	}
	for name := range p.Sources() {
		d.cfg.main = append(d.cfg.main, name)
	}
	read := make(diagnose.Files)
	d.read = func(path string, text []byte) { read[path] = text }
	env.LookupEnv = d.hideSecrets(env.lookup())
	d.ctx = evalContext(dir, env, d.read)
	d.cfg.ctx = d.ctx
	if !diags.HasErrors() {
		rest := d.prelude(hcl.MergeFiles(files), p)
		var f fileHCL
		if !d.diags.HasErrors() {
			d.add(gohcl.DecodeBody(rest, d.ctx, &f))
		}
		if !d.diags.HasErrors() {
			d.file(&f)
		}
	}
	d.cfg.files = p.Sources()
	if d.bundled != nil {
		d.cfg.files[builtIn] = d.bundled
	}
	maps.Copy(d.cfg.files, read)
	if d.diags.HasErrors() {
		return nil, d.cfg.failed(append(d.diags, d.cfg.unavailable...))
	}
	return d.cfg, nil
}

func (d *decoder) add(diags hcl.Diagnostics) { d.diags = append(d.diags, diags...) }

func (d *decoder) fail(at hcl.Range, summary, detail string, a ...any) {
	d.diags = append(d.diags, diagnose.Problemf(at, summary, detail, a...))
}

// unavailable is the extra information of a diagnostic about a file that cannot be read.
type unavailable struct{ error }

// external returns the reason why a block cannot be used, if all errors since the index n are missing environment
// variables and files that cannot be read. It then removes these errors, because they concern only this block.
// Otherwise it returns "".
func (d *decoder) external(n int) (why string) {
	for _, diag := range d.diags[n:] {
		var err error
		if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](diag); ok && (call.CalledFunctionName() == "env" || call.CalledFunctionName() == "file") {
			err = call.FunctionCallError()
		}
		if file, ok := diag.Extra.(unavailable); ok {
			err = file
		}
		if err == nil || diag.Subject == nil {
			return ""
		}
		if why == "" {
			why = fmt.Sprintf("%v (%s)", err, place(*diag.Subject))
		}
	}
	d.cfg.unavailable = append(d.cfg.unavailable, d.diags[n:]...)
	d.diags = d.diags[:n]
	return why
}

func (d *decoder) file(f *fileHCL) {
	if f.Host != nil {
		d.host(f.Host)
	}
	if f.Sandbox != nil {
		d.sandbox(f.Sandbox)
	}
	if f.Reload != nil {
		d.reload(f.Reload)
	}
	if w := f.Workspace; w != nil {
		d.workspace(w)
	}
	if f.Fleet != nil {
		d.fleet(f.Fleet)
	}
	d.distribution(f)
	d.plugins(f)
	for i := range f.Tools {
		t := &f.Tools[i]
		if first, dup := d.cfg.Tools[t.Name]; dup {
			d.fail(t.At, fmt.Sprintf("Tool %q is configured twice", t.Name), "The first block is at %s:%d. Put both into one.", first.at.Filename, first.at.Start.Line)
			continue
		}
		d.tool(t)
	}
	d.fallbacks()
	d.aliases(f.Aliases)
	d.hooks(f.Hooks)
	if f.Permissions != nil {
		d.permissions(f.Permissions)
	}
	d.deniedPaths(f.Sandbox)
	d.principals(f.Principals, f.Issuers)
	d.endpoints(f.Endpoints)
	d.quotas(f.Quotas)
	if f.Audit != nil {
		d.audit(f.Audit)
	}
	if f.Retention != nil {
		d.retention(f.Retention)
	}
	if f.Tracing != nil {
		d.tracing(f.Tracing)
	}
	if f.Record != nil {
		d.record(f.Record)
	}
	if f.Trust != nil {
		d.cfg.Trust.Approve = d.choice(f.Trust.Definitions, "report", "report", "approve") == "approve"
		d.cfg.Trust.Refuse = d.choice(f.Trust.Untrusted, "narrow", "narrow", "refuse") == "refuse"
	}
}

// plugins reads the plugin and field blocks and adds the bundled plugins. Configured plugins come first, so that their
// tools have precedence over tools of bundled plugins with the same names.
func (d *decoder) plugins(f *fileHCL) {
	seen, depends := make(map[string]hcl.Range), make(map[string]hcl.Range)
	for i := range f.Plugins {
		p := &f.Plugins[i]
		if first, dup := seen[p.Name]; dup {
			d.fail(p.At, fmt.Sprintf("Plugin %q is configured twice", p.Name), "The first block is at %s:%d. Remove one, or give it another name.", first.Filename, first.Start.Line)
			continue
		}
		seen[p.Name] = p.At
		d.plugin(p)
		if given(p.DependsOn) {
			depends[p.Name] = p.DependsOn.Range()
		}
	}
	d.addBundled(f)
	for i := range f.Fields {
		m := &f.Fields[i]
		if first, dup := seen[m.Name]; dup {
			d.fail(m.At, fmt.Sprintf("The name of field %q is taken", m.Name), "The block that has it is at %s:%d. Remove one, or give it another name.", first.Filename, first.Start.Line)
			continue
		}
		seen[m.Name] = m.At
		d.field(m)
	}
	d.dependencies(depends)
}

func (d *decoder) reload(r *reloadHCL) {
	increases := d.renamed(r.Widening, "widening", r.PrivilegeIncreases, "privilege_increases")
	d.cfg.Reload = Reload{
		Watch: r.Watch == nil || *r.Watch, AnyChanges: d.choice(r.Changes, "compatible", "compatible", "any") == "any",
		PrivilegeIncreases: d.choice(increases, "explicit", "approve", "explicit", "allow"),
	}
}

// aliases collects the aliases of the presets and of the operator. If both define the same name, the operator's alias
// applies.
func (d *decoder) aliases(blocks []aliasHCL) {
	own := make(map[string]hcl.Range)
	for _, b := range blocks {
		a := Alias{Name: b.Name, at: b.At}
		if first, dup := own[b.Name]; dup {
			d.fail(b.At, fmt.Sprintf("Alias %q is configured twice", b.Name), "The first block is at %s:%d. Remove one.", first.Filename, first.Start.Line)
			continue
		}
		own[b.Name] = b.At
		if err := CheckAlias(b.Name); err != nil {
			d.fail(b.At, fmt.Sprintf("%q cannot be an alias", b.Name), "Use letters, digits, '_' and '-', beginning with a letter.")
		}
		if !given(b.Tool) {
			d.fail(b.At, fmt.Sprintf("Alias %q stands for nothing", b.Name), "Say which tool it is for: tool = \"read\".")
			continue
		}
		d.add(gohcl.DecodeExpression(b.Tool, d.ctx, &a.Tool))
		if given(b.Params) {
			d.add(gohcl.DecodeExpression(b.Params, d.ctx, &a.Params))
		}
		d.cfg.Aliases = append(d.cfg.Aliases, a)
	}
	for _, preset := range d.cfg.Host.AliasPresets {
		for _, a := range habit.Presets[preset] {
			if _, overridden := own[a.Name]; !overridden && !a.Calls {
				d.cfg.Aliases = append(d.cfg.Aliases, Alias{Name: a.Name, Role: a.Role, Params: a.Params, Preset: preset})
			}
		}
	}
}

// CheckAlias returns an error if name is not a valid alias.
func CheckAlias(name string) error {
	if !aliasName.MatchString(name) {
		return fmt.Errorf("%q cannot be an alias: use letters, digits, '_' and '-', beginning with a letter", name)
	}
	return nil
}

var aliasName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_-]*$`)

func (d *decoder) host(h *hostHCL) {
	out := &d.cfg.Host
	switch level := d.choice(h.LogLevel, "", "debug", "info", "warn", "error"); level {
	case "":
	default:
		_ = out.LogLevel.UnmarshalText([]byte(level)) // ignore the error: the function "choice" accepts only valid levels
	}
	if h.StateDir != nil {
		out.StateDir = d.path(*h.StateDir)
	}
	out.OnAsk = d.choice(h.OnAsk, out.OnAsk, "allow", "deny", "prompt")
	if t := d.duration(h.Timeout); t > 0 {
		out.Timeout = t
	}
	if t := d.duration(h.MaxWait); t > 0 {
		out.MaxWait = t
	}
	if t := d.duration(h.Shutdown); t > 0 {
		out.ShutdownTimeout = t
	}
	if given(h.Aliases) {
		out.AliasPresets = nil
		d.add(gohcl.DecodeExpression(h.Aliases, d.ctx, &out.AliasPresets))
		for _, name := range out.AliasPresets {
			if known := slices.Sorted(maps.Keys(habit.Presets)); !slices.Contains(known, name) {
				d.fail(h.Aliases.Range(), fmt.Sprintf("There is no set of aliases %q", name), "There are: %s.%s", strings.Join(known, ", "), suggest.DidYouMean(name, known))
			}
		}
	}
	out.Adaptive = h.Adaptive
	out.HealthInterval = d.duration(h.Health)
	out.MaxCalls = d.positive(h.MaxCalls, "max_calls", "At least one call must be able to run.")
	if given(h.MaxParallel) {
		out.MaxParallel = d.positive(h.MaxParallel, "max_parallel", "At least one call must be able to run.")
	}
}

func (d *decoder) sandbox(s *sandboxHCL) {
	out := &d.cfg.Sandbox
	out.Workspace = d.choice(s.Workspace, out.Workspace, "read-write", "read-only")
	out.Strict = d.choice(s.Paths, "contained", "contained", "strict") == "strict"
	out.Allow, _ = d.globs(s.Allow)
	out.Deny, _ = d.globs(s.Deny)
	out.Backend = d.choice(s.Backend, out.Backend, sandbox.Words()...)
	out.Enforce = d.choice(s.Enforce, out.Enforce, "auto", "require", "off")
	out.Repositories = d.choice(s.Repositories, out.Repositories, "quarantine", "off")
	if given(s.AllowRoot) {
		for _, path := range d.texts(s.AllowRoot) {
			out.AllowRoot = append(out.AllowRoot, d.path(path))
		}
	}
	for _, r := range s.Roots {
		path := d.path(r.Path)
		if st, err := os.Stat(path); err != nil || !st.IsDir() {
			d.fail(r.At, fmt.Sprintf("There is no directory %s", path), "Create it, correct the path, or remove this root.")
			continue
		}
		d.cfg.Sandbox.Roots = append(d.cfg.Sandbox.Roots, Root{Path: path, Writable: r.Writable})
	}
}

func (d *decoder) plugin(p *pluginHCL) {
	out := Plugin{Name: p.Name, Args: p.Args, Env: p.Env, StartTimeout: d.duration(p.StartTimeout), DependsOn: d.dependsOn(p.DependsOn), Calls: d.toolGlobs("plugin", p.Name, p.Calls), Added: d.added, at: p.At}
	if !tool.ValidName(p.Name) {
		d.fail(p.At, fmt.Sprintf("%q cannot name a plugin", p.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
	}
	if given(p.Field) {
		d.add(gohcl.DecodeExpression(p.Field, d.ctx, &out.Field))
		if !tool.ValidName(out.Field) {
			d.fail(p.Field.Range(), fmt.Sprintf("%q cannot name a field namespace", out.Field), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
		}
	}
	switch {
	case given(p.Source):
		d.install(p, &out)
	case given(p.Version):
		d.fail(p.Version.Range(), fmt.Sprintf("Plugin %q has a version but no source", p.Name), "Add its name in a registry, such as source = \"registry.example.org/acme/%s\".", p.Name)
	case p.Path != nil:
		out.Path = d.path(*p.Path)
	case d.env.BundledDir != "":
		out.Path = filepath.Join(d.env.BundledDir, p.Name)
	default:
		d.fail(p.At, fmt.Sprintf("Plugin %q has no path", p.Name), "Say where its binary is: path = \"…\".")
	}
	if p.Rollout != nil {
		out.Rollout = d.rollout(p.Rollout)
	}
	if r := p.Restart; r != nil {
		out.Restart = Restart{Failures: d.positive(r.Failures, "failures", "A plugin is left alone after at least one failure."), Pause: d.duration(r.Pause)}
	}
	if p.Sandbox != nil {
		out.Confinement = d.confinement(p.Sandbox)
	}
	if p.Enabled != nil && !*p.Enabled {
		d.cfg.Off = append(d.cfg.Off, p.Name)
		return
	}
	if out.Source == "" {
		out.Missing = missing(out.Path)
	}
	leftOut := out.Missing != "" && p.Optional
	if err := out.describe(d.manifests); err != nil {
		out.Missing, leftOut = err.Error(), false
	}
	d.checkLabel(&out)
	if leftOut {
		d.cfg.LeftOut = append(d.cfg.LeftOut, p.Name)
	}
	if p.Config != nil && !leftOut {
		n := len(d.diags)
		out.Config, out.config = d.pluginConfig(p.Config)
		out.Refused = d.external(n)
	}
	if leftOut {
		d.cfg.absent = append(d.cfg.absent, absentPlugin{out, len(d.cfg.Plugins)})
		return
	}
	d.cfg.Plugins = append(d.cfg.Plugins, out)
}

// missing returns the reason why the host cannot run a binary. The reason is no error of the configuration,
// because the other plugins can still run.
func missing(path string) string {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("the file %s does not exist; build or install the plugin, or correct its path", path)
	case err != nil:
		return err.Error()
	case st.IsDir():
		return fmt.Sprintf("%s is a directory: name the plugin's binary", path)
	case !st.Mode().IsRegular():
		return fmt.Sprintf("%s is not a regular file", path)
	case st.Mode().Perm()&0o111 == 0:
		return fmt.Sprintf("%s is not executable: change that with chmod +x", path)
	}
	return ""
}

// pluginConfig evaluates a "config" block. Only the plugin knows the schema of this block. Attributes become values,
// and nested blocks become lists of objects.
func (d *decoder) pluginConfig(c *configHCL) (json.RawMessage, bodyRanges) {
	ranges := bodyRanges{"": c.At}
	b, err := json.Marshal(d.body(c.Body, nil, ranges))
	if err != nil {
		d.fail(c.At, "The plugin's configuration cannot be passed on", "%v", err)
	}
	return b, ranges
}

func (d *decoder) body(body hcl.Body, path []string, ranges bodyRanges) map[string]any {
	out := make(map[string]any)
	var attrs hcl.Attributes
	var blocks hclsyntax.Blocks
	if native, ok := body.(*hclsyntax.Body); ok {
		attrs = make(hcl.Attributes, len(native.Attributes))
		for name, a := range native.Attributes {
			attrs[name] = a.AsHCLAttribute()
		}
		blocks = native.Blocks
	} else { // JSON does not distinguish blocks from attributes
		var diags hcl.Diagnostics
		attrs, diags = body.JustAttributes()
		d.add(diags)
	}
	for name, a := range attrs {
		at := slices.Concat(path, []string{name})
		ranges[pathKey(at)] = a.Expr.Range()
		v, diags := a.Expr.Value(d.ctx)
		d.add(diags)
		if diags.HasErrors() {
			continue
		}
		if !v.IsWhollyKnown() {
			d.fail(a.Expr.Range(), "The value is not known", "Give a value that can be computed now.")
			continue
		}
		b, err := ctyjson.Marshal(v, v.Type())
		if err != nil {
			d.fail(a.Expr.Range(), "The value cannot be passed on", "%v", err)
			continue
		}
		out[name] = json.RawMessage(b)
	}
	for _, b := range blocks {
		list, _ := out[b.Type].([]any)
		at := slices.Concat(path, []string{b.Type, strconv.Itoa(len(list))})
		ranges[pathKey(at)] = b.DefRange()
		inner := d.body(b.Body, at, ranges)
		if len(b.Labels) > 0 {
			inner["labels"] = b.Labels
		}
		out[b.Type] = append(list, inner)
	}
	return out
}
