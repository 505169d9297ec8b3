// Package config reads the operator's HCL: which plugins, tools, field namespaces
// and roots there are. HCL's types stay inside; what comes out is plain Go, and
// errors that name file and line.
package config

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/host/internal/manifest"
)

// Config is a whole configuration, checked as far as it can be without starting anything.
type Config struct {
	// Source is the file or directory it came from; "built-in" for the default.
	Source string

	Host    Host
	Sandbox Sandbox
	Reload  Reload
	Plugins []Plugin
	Tools   map[string]Tool
	// Aliases are further names of tools: those of the presets that are on, then the
	// operator's.
	Aliases []Alias
	Hooks   []Hook
	// Permissions are rules for calls.
	Permissions Permissions
	Audit       Audit
	Tracing     Tracing
	Trust       Trust
	// LeftOut are optional plugins whose binaries are not there.
	LeftOut []string

	absent []absentPlugin
	// files are all that were read; those named in main are the configuration itself, beside values
	// of variables and what the function file gave.
	files diagnose.Files
	// warnings are about what works and should be changed.
	warnings hcl.Diagnostics
	main     []string
	// sensitive are "var.NAME" and "local.NAME"; hide are their texts.
	sensitive map[string]bool
	hide      []string
	// What the files said, for [Config.Tree], and where variables have their values from.
	parsed []*hcl.File
	ctx    *hcl.EvalContext
	dir    string
	from   map[string]string
}

// absentPlugin is an optional plugin that is left out because its binary is not there.
type absentPlugin struct {
	Plugin
	before int // where it would stand in Plugins
}

// Host settings.
type Host struct {
	// LogLevel of standard error.
	LogLevel slog.Level
	// StateDir; empty: the user's.
	StateDir string
	// OnAsk decides what becomes of asks: "allow", "deny" or "prompt"; empty: nothing is said.
	OnAsk string
	// Timeout of a call that neither tool nor operator gave one.
	Timeout time.Duration
	// AliasPresets name the sets of aliases that are on; see [Presets].
	AliasPresets []string
	// HealthInterval is how often plugins that run are asked how they are; 0: only on request.
	HealthInterval time.Duration
	// MaxParallel bounds the calls of one session that run at the same time.
	MaxParallel int
	// Adaptive has limits set by how calls went, and results kept that are slow to come by.
	Adaptive bool
	// MaxCalls bounds the calls of all sessions that run at the same time; 0: any number.
	MaxCalls int
}

// Reload says how a host treats changed binaries and files of its configuration.
type Reload struct {
	// Watch makes it notice them automatically, if it lives longer than a call.
	Watch bool
	// AnyChanges publishes versions of plugins that break callers, too.
	AnyChanges bool
	// PrivilegeIncreases says when a configuration that lets tools do more is applied: "approve" only if somebody approves
	// it, "explicit" if somebody asks for a reload, "allow" always.
	PrivilegeIncreases string
}

// Sandbox says which files may be touched.
type Sandbox struct {
	// Workspace is "read-write" or "read-only".
	Workspace string
	// Roots are further roots; their paths are absolute.
	Roots []Root
	// Strict refuses any ".." and any symbolic link, also inside the roots.
	Strict bool
	// Allow and Deny are path globs; a path must match one of Allow (when there is
	// one) and none of Deny.
	Allow, Deny []string
	// Backend is how the kernel confines plugins: a word of [sandbox.Words].
	Backend string
	// Enforce says what becomes of a plugin that the kernel cannot confine: "auto" runs it
	// with what there is, "require" does not run it, "off" confines none.
	Enforce string
}

// Audit says what is kept of calls.
type Audit struct {
	// Off keeps nothing.
	Off bool
	// MaxBytes and MaxAge bound what is kept; see [DefaultAudit].
	MaxBytes uint64
	MaxAge   time.Duration
	// Secrets are values of environment variables that are never kept.
	Secrets []string
}

// Trust says what becomes of plugins that are not pinned.
type Trust struct {
	// Approve keeps tools from being called whose definition is another than the one that was
	// approved; otherwise that is reported.
	Approve bool
}

// DefaultAudit is what a configuration without an audit block means.
func DefaultAudit() Audit { return Audit{MaxBytes: 64 << 20, MaxAge: 90 * 24 * time.Hour} }

// Root is one further directory tree.
type Root struct {
	Path     string
	Writable bool
}

// Plugin is one plugin block.
type Plugin struct {
	Name string
	// Path of the binary, absolute.
	Path string
	Args []string
	Env  map[string]string
	// Field is the namespace under which its tools are mounted; empty: they are agent tools.
	Field        string
	StartTimeout time.Duration
	// Config is the plugin's own block as JSON; nil: none.
	Config json.RawMessage
	// DependsOn names the plugins that are started before it, and stopped after it.
	DependsOn []string
	// Restart says when it is left alone that ends again and again.
	Restart Restart
	// Confinement is what the operator says of what the plugin may do.
	Confinement Confinement
	// Profile is what the sandbox allows unless Confinement changes it. It comes from the manifest of the
	// bundled plugin with this name.
	Profile manifest.Profile
	// Mounted: it is the bundled plugin of a field block, and its tools are those of a server.
	Mounted bool
	// Missing says why the binary cannot be used; empty: it is there.
	Missing string

	at     position
	config bodyRanges
}

// Restart says what becomes of a plugin that comes to nothing: it cannot be started, or ends
// before it has answered a call. Zero values leave it as it is.
type Restart struct {
	// Failures in a row, after which it is left alone for Pause.
	Failures int
	Pause    time.Duration
}

// Confinement changes what a plugin may do; nil and zero values leave it as it is.
type Confinement struct {
	// Enforce for this plugin, as in Sandbox; empty: as there.
	Enforce string
	// WriteRoots: it may write in writable roots. NoRoots: it may not even read in any.
	WriteRoots, NoRoots, Exec, Network *bool
	// WriteGit: it may write the hooks and the settings of repositories in its roots.
	WriteGit bool
	// Hosts are what it may reach without Network; see package hostlist.
	Hosts []string
	// Read and Write are further paths, absolute; Run are programs.
	Read, Write, Run []string
	Limits           Limits
}

// Limits of a plugin's processes, each; 0: none.
type Limits struct {
	// Memory and FileSize in bytes.
	Memory, FileSize uint64
	// Processes of the plugin together, and Files open in each.
	Processes, Files uint64
	// CPU time, in whole seconds.
	CPU time.Duration
	// Total is for all of them together.
	Total Totals
}

// Totals are limits of a plugin's processes together; 0: none.
type Totals struct {
	// Memory in bytes.
	Memory uint64
	// Processes and threads.
	Processes uint64
	// CPUs that may be busy at the same time.
	CPUs float64
}

// Alias is another name for a tool.
type Alias struct {
	Name string
	// Tool is the full name of what it stands for: "read", "jira:search".
	Tool string
	// Params are further names of parameters, with the parameter that each is for.
	Params map[string]string
	// Preset it comes from; empty: the operator's.
	Preset string

	at position
}

// DefaultHost is what a configuration without a host block means.
func DefaultHost() Host {
	return Host{LogLevel: slog.LevelWarn, Timeout: 2 * time.Minute, MaxParallel: 10, AliasPresets: slices.Sorted(maps.Keys(Presets))}
}
