// Package config reads the operator's HCL into plain Go values: plugins, tools, field namespaces, roots and rules. Most
// callers want [Source.Load]. HCL's types stay inside. Errors name file and line.
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

// Config is a whole configuration. It was checked as far as possible without starting anything.
type Config struct {
	// Source is its file or directory, or "built-in".
	Source string

	Host    Host
	Sandbox Sandbox
	Reload  Reload
	Plugins []Plugin
	Tools   map[string]Tool
	// Aliases are further names of tools: first those of the enabled presets, then the operator's.
	Aliases []Alias
	Hooks   []Hook
	// Permissions are the rules for calls.
	Permissions Permissions
	Audit       Audit
	Tracing     Tracing
	Trust       Trust
	// LeftOut lists the optional plugins whose binaries are missing.
	LeftOut []string

	absent []absentPlugin
	// files holds the text of all files that were read. main lists the files of the configuration itself, without values
	// of variables and files that the function file read.
	files diagnose.Files
	// warnings are about what works and should be changed.
	warnings hcl.Diagnostics
	main     []string
	// sensitive has "var.NAME" and "local.NAME" of sensitive values. hide has their texts.
	sensitive map[string]bool
	hide      []string
	// The parsed files, for [Config.Tree], and the origins of variables.
	parsed []*hcl.File
	ctx    *hcl.EvalContext
	dir    string
	from   map[string]string
}

// absentPlugin is an optional plugin that is left out because its binary is missing.
type absentPlugin struct {
	Plugin
	before int // its index in Plugins if it were there
}

// Host has the settings of the host block.
type Host struct {
	// LogLevel of standard error.
	LogLevel slog.Level
	// StateDir is the state directory. Empty means the user's.
	StateDir string
	// OnAsk decides permission asks: "allow", "deny" or "prompt". Empty leaves that to the caller.
	OnAsk string
	// Timeout of a call for which neither the tool nor the operator sets one.
	Timeout time.Duration
	// AliasPresets names the enabled sets of aliases. See [Presets].
	AliasPresets []string
	// HealthInterval is the time between health checks of running plugins. 0 means that they are checked on request
	// only.
	HealthInterval time.Duration
	// MaxParallel is how many calls of one session may run at the same time.
	MaxParallel int
	// Adaptive adapts limits to the durations of earlier calls, and caches slow results.
	Adaptive bool
	// MaxCalls is how many calls of all sessions may run at the same time. 0 means any number.
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

// Sandbox has the settings of the sandbox block.
type Sandbox struct {
	// Workspace is "read-write" or "read-only".
	Workspace string
	// Roots are further roots, with absolute paths.
	Roots []Root
	// Strict refuses every ".." and every symbolic link, also inside the roots.
	Strict bool
	// Allow and Deny are path globs. A path must match one of Allow, if there is any, and none of Deny.
	Allow, Deny []string
	// Backend is how the kernel confines plugins: a word of [sandbox.Words].
	Backend string
	// Enforce says what happens to a plugin that the kernel cannot confine: "auto" confines it as far as possible,
	// "require" does not run it, and "off" confines no plugin.
	Enforce string
}

// Audit says what is kept of calls.
type Audit struct {
	// Off keeps nothing.
	Off bool
	// MaxBytes and MaxAge limit the audit log. See [DefaultAudit].
	MaxBytes uint64
	MaxAge   time.Duration
	// Secrets are values of environment variables that are never kept.
	Secrets []string
}

// Trust has the settings for plugins that are not pinned.
type Trust struct {
	// Approve blocks calls of tools whose definition differs from the approved one. Otherwise the difference is only
	// reported.
	Approve bool
}

// DefaultAudit returns the settings of a configuration without an audit block.
func DefaultAudit() Audit { return Audit{MaxBytes: 64 << 20, MaxAge: 90 * 24 * time.Hour} }

// Root is a further directory tree.
type Root struct {
	Path     string
	Writable bool
}

// Plugin is a plugin block.
type Plugin struct {
	Name string
	// Path of the binary, absolute.
	Path string
	Args []string
	Env  map[string]string
	// Field is the namespace of its tools. Empty means that they are agent tools.
	Field        string
	StartTimeout time.Duration
	// Config is the plugin's own configuration as JSON, or nil.
	Config json.RawMessage
	// DependsOn names the plugins that start before it and stop after it.
	DependsOn []string
	// Restart limits how often a failing plugin is restarted.
	Restart Restart
	// Confinement changes what the plugin may do.
	Confinement Confinement
	// Profile is what the sandbox allows unless Confinement changes it. It comes from the manifest of the
	// bundled plugin with this name.
	Profile manifest.Profile
	// Mounted reports whether it is the bundled plugin of a field block, which serves the tools of something else.
	Mounted bool
	// Missing says why the binary cannot be used. Empty means that it can.
	Missing string

	at     position
	config bodyRanges
}

// Restart is the restart policy for a plugin that does not start or exits before it answers a call. Zero fields keep the
// defaults.
type Restart struct {
	// Failures is the number of consecutive failures after which the plugin is suspended for Pause.
	Failures int
	Pause    time.Duration
}

// Confinement changes a plugin's profile. Nil and zero fields leave it unchanged.
type Confinement struct {
	// Enforce is as in Sandbox, for this plugin. Empty means as there.
	Enforce string
	// WriteRoots permits writing in writable roots. NoRoots forbids even reading in any root.
	WriteRoots, NoRoots, Exec, Network *bool
	// WriteGit permits writing the hooks and settings of repositories in the roots.
	WriteGit bool
	// Hosts may be reached without Network. See package hostlist.
	Hosts []string
	// Read and Write are further paths, absolute. Run are programs.
	Read, Write, Run []string
	Limits           Limits
}

// Limits apply to each process of a plugin. 0 means no limit.
type Limits struct {
	// Memory and FileSize are in bytes.
	Memory, FileSize uint64
	// Processes is the number of processes of the plugin together. Files is the number of open files in each.
	Processes, Files uint64
	// CPU time, in whole seconds.
	CPU time.Duration
	// Total applies to all processes together.
	Total Totals
}

// Totals apply to all processes of a plugin together. 0 means no limit.
type Totals struct {
	// Memory in bytes.
	Memory uint64
	// Processes is the number of processes and threads.
	Processes uint64
	// CPUs is the number of processors that may be busy at the same time.
	CPUs float64
}

// Alias is another name of a tool.
type Alias struct {
	Name string
	// Tool is the full name of the tool: "read" or "jira:search".
	Tool string
	// Params maps further names of parameters to the tool's own.
	Params map[string]string
	// Preset names the set that it is from. Empty means that it is the operator's.
	Preset string

	at position
}

// DefaultHost returns the settings of a configuration without a host block.
func DefaultHost() Host {
	return Host{LogLevel: slog.LevelWarn, Timeout: 2 * time.Minute, MaxParallel: 10, AliasPresets: slices.Sorted(maps.Keys(Presets))}
}
