package config

import "github.com/hashicorp/hcl/v2"

// fileHCL is the Go form of a configuration file for the HCL decoder. Durations are strings such as "90s".
type fileHCL struct {
	Bundled *bool `hcl:"bundled,optional"`

	Host    *hostHCL    `hcl:"host,block"`
	Sandbox *sandboxHCL `hcl:"sandbox,block"`
	Reload  *reloadHCL  `hcl:"reload,block"`

	Workspace *workspaceHCL `hcl:"workspace,block"`
	Fleet     *fleetHCL     `hcl:"fleet,block"`

	Plugins []pluginHCL `hcl:"plugin,block"`
	Fields  []fieldHCL  `hcl:"field,block"`
	Tools   []toolHCL   `hcl:"tool,block"`
	Aliases []aliasHCL  `hcl:"alias,block"`

	Hooks       []hookHCL       `hcl:"hook,block"`
	Permissions *permissionsHCL `hcl:"permissions,block"`
	Audit       *auditHCL       `hcl:"audit,block"`
	Retention   *retentionHCL   `hcl:"retention,block"`
	Tracing     *tracingHCL     `hcl:"tracing,block"`
	Record      *recordHCL      `hcl:"record,block"`
	Trust       *trustHCL       `hcl:"trust,block"`
	Principals  []principalHCL  `hcl:"principal,block"`
	Issuers     []issuerHCL     `hcl:"issuer,block"`
	Endpoints   []endpointHCL   `hcl:"endpoint,block"`
	Quotas      []quotaHCL      `hcl:"quota,block"`
	Publishers  []publisherHCL  `hcl:"publisher,block"`
	Mirrors     []mirrorHCL     `hcl:"mirror,block"`
	Catalogs    []catalogHCL    `hcl:"catalog,block"`
}

type hostHCL struct {
	LogLevel    hcl.Expression `hcl:"log_level,optional"`
	StateDir    *string        `hcl:"state_dir,optional"`
	OnAsk       hcl.Expression `hcl:"on_ask,optional"`
	Timeout     hcl.Expression `hcl:"timeout,optional"`
	MaxWait     hcl.Expression `hcl:"max_wait,optional"`
	Shutdown    hcl.Expression `hcl:"shutdown_timeout,optional"`
	MaxParallel hcl.Expression `hcl:"max_parallel,optional"`
	MaxCalls    hcl.Expression `hcl:"max_calls,optional"`
	Health      hcl.Expression `hcl:"health_interval,optional"`
	Aliases     hcl.Expression `hcl:"aliases,optional"`
	Adaptive    bool           `hcl:"adaptive,optional"`
}

type sandboxHCL struct {
	Workspace hcl.Expression `hcl:"workspace,optional"`
	Paths     hcl.Expression `hcl:"paths,optional"`
	Allow     hcl.Expression `hcl:"allow,optional"`
	Deny      hcl.Expression `hcl:"deny,optional"`
	Backend   hcl.Expression `hcl:"backend,optional"`
	Enforce   hcl.Expression `hcl:"enforce,optional"`
	AllowRoot hcl.Expression `hcl:"allow_root,optional"`

	Repositories hcl.Expression `hcl:"repositories,optional"`

	Roots []rootHCL `hcl:"root,block"`
}

type reloadHCL struct {
	Watch   *bool          `hcl:"watch,optional"`
	Changes hcl.Expression `hcl:"changes,optional"`

	PrivilegeIncreases hcl.Expression `hcl:"privilege_increases,optional"`
	// Widening is the deprecated name of PrivilegeIncreases.
	Widening hcl.Expression `hcl:"widening,optional"`
}

type trustHCL struct {
	Definitions hcl.Expression `hcl:"definitions,optional"`
	Untrusted   hcl.Expression `hcl:"untrusted,optional"`
}

type rootHCL struct {
	Path     string    `hcl:"path,label"`
	Writable bool      `hcl:"writable,optional"`
	At       hcl.Range `hcl:",def_range"`
}

type pluginHCL struct {
	Name         string            `hcl:"name,label"`
	Path         *string           `hcl:"path,optional"`
	Source       hcl.Expression    `hcl:"source,optional"`
	Version      hcl.Expression    `hcl:"version,optional"`
	Args         []string          `hcl:"args,optional"`
	Env          map[string]string `hcl:"env,optional"`
	Field        hcl.Expression    `hcl:"field,optional"`
	Optional     bool              `hcl:"optional,optional"`
	Enabled      *bool             `hcl:"enabled,optional"`
	StartTimeout hcl.Expression    `hcl:"start_timeout,optional"`
	DependsOn    hcl.Expression    `hcl:"depends_on,optional"`
	Calls        hcl.Expression    `hcl:"calls,optional"`
	Restart      *restartHCL       `hcl:"restart,block"`
	Rollout      *rolloutHCL       `hcl:"rollout,block"`
	Sandbox      *confinementHCL   `hcl:"sandbox,block"`
	Config       *configHCL        `hcl:"config,block"`
	At           hcl.Range         `hcl:",def_range"`
}

type restartHCL struct {
	Failures hcl.Expression `hcl:"failures,optional"`
	Pause    hcl.Expression `hcl:"pause,optional"`
}

type configHCL struct {
	Body hcl.Body  `hcl:",remain"`
	At   hcl.Range `hcl:",def_range"`
}

type aliasHCL struct {
	Name   string         `hcl:"name,label"`
	Tool   hcl.Expression `hcl:"tool,optional"`
	Params hcl.Expression `hcl:"params,optional"`
	At     hcl.Range      `hcl:",def_range"`
}
