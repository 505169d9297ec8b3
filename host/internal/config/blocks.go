package config

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/tool"
)

// fileHCL is the Go form of a configuration file for the HCL decoder. Durations are strings such as "90s".
type fileHCL struct {
	Bundled *bool `hcl:"bundled,optional"`

	Host    *bodyHCL    `hcl:"host,block"`
	Sandbox *sandboxHCL `hcl:"sandbox,block"`
	Reload  *bodyHCL    `hcl:"reload,block"`

	Workspace *bodyHCL  `hcl:"workspace,block"`
	Fleet     *fleetHCL `hcl:"fleet,block"`

	Plugins []pluginHCL `hcl:"plugin,block"`
	Fields  []fieldHCL  `hcl:"field,block"`
	Tools   []toolHCL   `hcl:"tool,block"`
	Aliases []namedHCL  `hcl:"alias,block"`

	Hooks       []namedHCL      `hcl:"hook,block"`
	Permissions *permissionsHCL `hcl:"permissions,block"`
	Audit       *bodyHCL        `hcl:"audit,block"`
	Retention   *bodyHCL        `hcl:"retention,block"`
	Tracing     *bodyHCL        `hcl:"tracing,block"`
	Record      *bodyHCL        `hcl:"record,block"`
	Trust       *bodyHCL        `hcl:"trust,block"`
	Principals  []principalHCL  `hcl:"principal,block"`
	Issuers     []namedHCL      `hcl:"issuer,block"`
	Endpoints   []namedHCL      `hcl:"endpoint,block"`
	Quotas      []quotaHCL      `hcl:"quota,block"`
	Publishers  []namedHCL      `hcl:"publisher,block"`
	Mirrors     []mirrorHCL     `hcl:"mirror,block"`
	Catalogs    []namedHCL      `hcl:"catalog,block"`
}

type sandboxHCL struct {
	Roots []rootHCL `hcl:"root,block"`
	Rest  hcl.Body  `hcl:",remain"`
	At    hcl.Range `hcl:",def_range"`
}

type rootHCL struct {
	Path string    `hcl:"path,label"`
	Rest hcl.Body  `hcl:",remain"`
	At   hcl.Range `hcl:",def_range"`
}

var rootTable = newTable(
	row("writable", flag(func(r *Root) *bool { return &r.Writable }), compared, "false",
		"Whether tools may write in it."),
)

type pluginHCL struct {
	Name    string    `hcl:"name,label"`
	Restart *bodyHCL  `hcl:"restart,block"`
	Rollout *bodyHCL  `hcl:"rollout,block"`
	Sandbox *bodyHCL  `hcl:"sandbox,block"`
	Config  *bodyHCL  `hcl:"config,block"`
	Rest    hcl.Body  `hcl:",remain"`
	At      hcl.Range `hcl:",def_range"`
}

// pluginTable lists the attributes of a plugin block.
var pluginTable = newTable(
	row("path",
		custom("string", func(p *Plugin) *string { return &p.Path }, func(d *decoder, a *hcl.Attribute, to *Plugin) {
			to.Path = d.path(d.optionalText(a.Expr))
		}), free,
		"(in the directory of the bundled plugins)", "Path of the binary.", isPath),
	row("source", plain("string", func(p *Plugin) *string { return &p.Source }), free, "", `Name of the plugin in a registry, such as "registry.example.org/acme/weather". toolhost plugin install installs it.`),
	row("version", plain("string", func(p *Plugin) *string { return &p.Version }), free, "(newest)", `Versions that fit: "~> 1.2" for 1.2 and later 1.x, ">= 1.4, < 3", or one version.`, hostOnly),
	row("args", plain("list(string)", func(p *Plugin) *[]string { return &p.Args }), free, "[]", "Arguments of the binary."),
	row("env", plain("map(string)", func(p *Plugin) *map[string]string { return &p.Env }), free, "{}", "Variables added to its environment."),
	row("field",
		custom("string", func(p *Plugin) *string { return &p.Field }, func(d *decoder, a *hcl.Attribute, to *Plugin) {
			if to.Field = d.optionalText(a.Expr); !tool.ValidName(to.Field) {
				d.fail(a.Expr.Range(), fmt.Sprintf("%q cannot name a field namespace", to.Field), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
			}
		}), free,
		"(agent tools)", "Namespace of its tools."),
	row("optional", flag(func(p *Plugin) *bool { return &p.optional }), free, "false", "Whether the plugin is skipped if its binary does not exist.", hostOnly),
	row("enabled", not(func(p *Plugin) *bool { return &p.off }), compared, "true", "Whether the plugin is used. false turns off a plugin, also a bundled one.", hostOnly),
	row("start_timeout", duration(func(p *Plugin) *time.Duration { return &p.StartTimeout }), free, "(10 s)", "Maximum time from the start until the plugin is ready."),
	row("depends_on", plain("list(string)", func(p *Plugin) *[]string { return &p.DependsOn }), free, "[]", "Plugins that start before it and stop after it."),
	row("calls", ownList(func(p *Plugin) *[]string { return &p.Calls }, func(d *decoder, a *hcl.Attribute, to *Plugin) {
		to.Calls = d.toolGlobs("plugin", to.Name, a.Expr)
	}), compared,
		"[]", "Tools that its code may call, as names or globs. Each call is judged like one of the agent.", hostOnly),
)

// namedHCL is a block with a name. The table of the block decodes its body.
type namedHCL struct {
	Name string    `hcl:"name,label"`
	Rest hcl.Body  `hcl:",remain"`
	At   hcl.Range `hcl:",def_range"`
}

// bodyHCL is a block without labels. The table of the block decodes its body.
type bodyHCL struct {
	Body hcl.Body  `hcl:",remain"`
	At   hcl.Range `hcl:",def_range"`
}

var aliasTable = newTable(
	row("tool", plain("string", func(a *Alias) *string { return &a.Tool }), free, "", "Name of the tool.", needed),
	row("params", plain("map(string)", func(a *Alias) *map[string]string { return &a.Params }), free, "{}", "Further names of parameters, with the parameter that each stands for."),
)
