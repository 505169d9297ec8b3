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

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/host/internal/habit"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/internal/manifest"
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
	// malformed contains the attributes and blocks that a block cannot have, and those that it lacks. Other problems
	// can be consequences of them.
	malformed hcl.Diagnostics
	cfg       *Config
	// bundled contains generated blocks for the bundled plugins that no file configures. added is true while these
	// blocks are being read.
	added   bool
	bundled []byte
	// described caches the information in manifests about the plugins of fields. The key is the path of the
	// plugin.
	described map[string]described
	denied    hcl.Range // position of sandbox { deny }
}

func decode(files []*hcl.File, diags hcl.Diagnostics, p *hclparse.Parser, source, dir string,
	env Environment) (*Config, error) {
	d := &decoder{
		dir: dir, env: env, manifests: manifest.OpenDirectory(env.BundledDir), diags: diags,
		cfg: &Config{
			Source: source, Host: hostTable.defaults(), Audit: auditTable.defaults(),
			Workspace: workspaceTable.defaults(), Sandbox: sandboxTable.defaults(), Reload: reloadTable.defaults(),
			Trust: trustTable.defaults(),
			Tools: make(map[string]Tool), sensitive: make(map[string]bool), parsed: files, dir: dir,
			bundledDir: env.BundledDir, from: make(map[string]string),
		},
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
	if problems := d.problems(); problems.HasErrors() {
		return nil, d.cfg.failed(append(problems, d.cfg.unavailable...))
	}
	return d.cfg, nil
}

// problems returns the problems to report.
func (d *decoder) problems() hcl.Diagnostics {
	if d.malformed.HasErrors() {
		return d.malformed
	}
	return d.diags
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
		if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](diag); ok &&
			(call.CalledFunctionName() == "env" || call.CalledFunctionName() == "file") {
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
	readBlock(d, f.Host, hostTable, &d.cfg.Host)
	if f.Sandbox != nil {
		d.sandbox(f.Sandbox)
	}
	readBlock(d, f.Reload, reloadTable, &d.cfg.Reload)
	readBlock(d, f.Workspace, workspaceTable, &d.cfg.Workspace)
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
	d.deniedPaths()
	d.principals(f.Principals, f.Issuers)
	d.endpoints(f.Endpoints)
	d.quotas(f.Quotas)
	readBlock(d, f.Audit, auditTable, &d.cfg.Audit)
	readBlock(d, f.Retention, retentionTable, &d.cfg.Retention)
	readBlock(d, f.Tracing, tracingTable, &d.cfg.Tracing)
	if f.Record != nil {
		d.cfg.Record = recordTable.defaults()
	}
	readBlock(d, f.Record, recordTable, &d.cfg.Record)
	readBlock(d, f.Trust, trustTable, &d.cfg.Trust)
}

// readBlock decodes a block that can appear once. A nil block means that no file contains it.
func readBlock[T any](d *decoder, b *bodyHCL, t *table[T], to *T) {
	if b != nil {
		t.read(d, b.Body, to)
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
		depends[p.Name] = d.plugin(p)["depends_on"]
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

// aliases collects the aliases of the presets and of the operator. If both define the same name, the operator's alias
// applies.
func (d *decoder) aliases(blocks []namedHCL) {
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
		if _, ok := aliasTable.read(d, b.Rest, &a)["tool"]; !ok {
			d.fail(b.At, fmt.Sprintf("Alias %q stands for nothing", b.Name), "Say which tool it is for: tool = \"read\".")
			continue
		}
		d.cfg.Aliases = append(d.cfg.Aliases, a)
	}
	for _, preset := range d.cfg.Host.AliasPresets {
		for _, a := range habit.Presets[preset] {
			if _, overridden := own[a.Name]; !overridden && !a.Calls {
				d.cfg.Aliases = append(d.cfg.Aliases, Alias{
					Name: a.Name, Role: a.Role, Params: a.Params, Preset: preset,
				})
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

func (d *decoder) sandbox(s *sandboxHCL) {
	sandboxTable.read(d, s.Rest, &d.cfg.Sandbox)
	for _, r := range s.Roots {
		root := Root{Path: d.path(r.Path)}
		rootTable.read(d, r.Rest, &root)
		if st, err := os.Stat(root.Path); err != nil || !st.IsDir() {
			d.fail(r.At, fmt.Sprintf("There is no directory %s", root.Path), "Create it, correct the path, or remove this root.")
			continue
		}
		d.cfg.Sandbox.Roots = append(d.cfg.Sandbox.Roots, root)
	}
}

func (d *decoder) plugin(p *pluginHCL) (at map[string]hcl.Range) {
	out := Plugin{Name: p.Name, Added: d.added, at: p.At}
	if !tool.ValidName(p.Name) {
		d.fail(p.At, fmt.Sprintf("%q cannot name a plugin", p.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
	}
	at = pluginTable.read(d, p.Rest, &out)
	_, source := at["source"]
	_, path := at["path"]
	switch {
	case source:
		d.install(p, at, &out)
	case out.Version != "":
		d.fail(at["version"], fmt.Sprintf("Plugin %q has a version but no source", p.Name), "Add its name in a registry, such as source = \"registry.example.org/acme/%s\".", p.Name)
	case path:
	case d.env.BundledDir != "":
		out.Path = filepath.Join(d.env.BundledDir, p.Name)
	default:
		d.fail(p.At, fmt.Sprintf("Plugin %q has no path", p.Name), "Say where its binary is: path = \"…\".")
	}
	if p.Rollout != nil {
		out.Rollout = d.rollout(p.Rollout)
	}
	readBlock(d, p.Restart, restartTable, &out.Restart)
	readBlock(d, p.Sandbox, confinementTable, &out.Confinement)
	if out.off {
		d.cfg.Off = append(d.cfg.Off, p.Name)
		return at
	}
	if out.Source == "" {
		out.Missing = missing(out.Path)
	}
	leftOut := out.Missing != "" && out.optional
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
		return at
	}
	d.cfg.Plugins = append(d.cfg.Plugins, out)
	return at
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
func (d *decoder) pluginConfig(c *bodyHCL) (json.RawMessage, bodyRanges) {
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
