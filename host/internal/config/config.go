// Package config reads the operator's HCL into plain Go values: plugins, tools, field namespaces, roots and rules. Most
// callers want [Source.Load]. The API exposes no HCL types. Errors name the file and line.
package config

import (
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/host/internal/manifest"
)

// Config is a complete configuration. It was validated as far as possible without starting a plugin.
type Config struct {
	// Source is the file or directory of the configuration, or "built-in".
	Source string
	// Path is the file or directory that applies. Empty means the built-in configuration.
	Path string
	// Untrusted says why a project file was not applied as a whole. Empty means that it was, or that there is none.
	Untrusted string
	// Invalid is what is wrong with a project file that was not applied. Nil means nothing.
	Invalid error
	// Trusted has the SHA-256 of files and programs that a person trusted, by path. It is nil if the configuration needs
	// no trust.
	Trusted map[string]string
	// Protected are files that tools must not change although they can write in their directory.
	Protected []string

	Host    Host
	Sandbox Sandbox
	Reload  Reload
	Plugins []Plugin
	Tools   map[string]Tool
	// Aliases are additional names of tools. The aliases of the enabled presets come first, then the operator's.
	Aliases []Alias
	Hooks   []Hook
	// Permissions are the permission rules for calls.
	Permissions Permissions
	Audit       Audit
	Tracing     Tracing
	Trust       Trust
	// LeftOut lists the optional plugins whose binaries are missing.
	LeftOut []string

	absent []absentPlugin
	// files holds the text of all files that were read. main lists the configuration files themselves. main excludes
	// files of variable values and files that the file function read.
	files diagnose.Files
	// warnings describe settings that work but should be changed.
	warnings hcl.Diagnostics
	main     []string
	// sensitive holds the names of sensitive values, such as "var.NAME" and "local.NAME". hide holds the texts of these
	// values.
	sensitive map[string]bool
	hide      []string
	// parsed holds the parsed files for [Config.Tree]. from holds the origins of variables.
	parsed []*hcl.File
	ctx    *hcl.EvalContext
	dir    string
	from   map[string]string
	// copies maps programs to the copies that run in their place.
	copies map[string]string
}

// absentPlugin is an optional plugin that was omitted because its binary is missing.
type absentPlugin struct {
	Plugin
	before int // index in Plugins at which the plugin would be inserted
}

// Host holds the settings of the host block.
type Host struct {
	// LogLevel is the minimum level of messages on standard error.
	LogLevel slog.Level
	// StateDir is the state directory. Empty means the default directory of the user.
	StateDir string
	// OnAsk decides permission asks: "allow", "deny" or "prompt". If OnAsk is empty, the caller decides.
	OnAsk string
	// Timeout applies to calls for which neither the tool nor the operator sets a timeout.
	Timeout time.Duration
	// AliasPresets names the enabled sets of aliases. See [Presets].
	AliasPresets []string
	// HealthInterval is the time between health checks of running plugins. Zero means that plugins are checked on
	// request only.
	HealthInterval time.Duration
	// MaxParallel is the maximum number of concurrent calls of one session.
	MaxParallel int
	// Adaptive enables limits that adapt to the durations of earlier calls. It also enables the cache for slow results.
	Adaptive bool
	// MaxCalls is the maximum number of concurrent calls of all sessions. Zero means no limit.
	MaxCalls int
}

// Reload configures how a host reacts to changed binaries and configuration files.
type Reload struct {
	// Watch enables automatic reloads on changes. It has no effect in a host that runs only one call.
	Watch bool
	// AnyChanges permits new plugin versions that are incompatible with existing callers.
	AnyChanges bool
	// PrivilegeIncreases sets when a configuration that increases privileges is applied. "approve" requires an approval,
	// "explicit" requires an explicit reload, and "allow" always applies the configuration.
	PrivilegeIncreases string
}

// Sandbox holds the settings of the sandbox block.
type Sandbox struct {
	// Workspace is the access to the workspace: "read-write" or "read-only".
	Workspace string
	// Roots are additional roots, with absolute paths.
	Roots []Root
	// Strict rejects every ".." and every symbolic link in a path, even inside the roots.
	Strict bool
	// Allow and Deny are path globs. A path must match no glob of Deny. If Allow is not empty, the path must also match
	// a glob of Allow.
	Allow, Deny []string
	// AllowRoot are directories that tools may write although the host refuses them by default, such as the home
	// directory. Paths are absolute.
	AllowRoot []string
	// Backend selects how the kernel confines plugins. It is one of [sandbox.Words].
	Backend string
	// Enforce sets how to handle a plugin that the kernel cannot confine. "auto" confines the plugin as far as possible,
	// "require" does not run the plugin, and "off" disables confinement for all plugins.
	Enforce string
}

// Audit configures which details of calls are recorded.
type Audit struct {
	// Off disables the audit log.
	Off bool
	// MaxBytes and MaxAge limit the audit log. For the defaults, see [DefaultAudit].
	MaxBytes uint64
	MaxAge   time.Duration
	// Secrets are values of environment variables that must not be recorded.
	Secrets []string
	// Continue lets calls run while the audit log cannot be written. Otherwise they are refused.
	Continue bool
}

// Trust holds the settings for what nobody has reviewed.
type Trust struct {
	// Refuse refuses to start beside a project file that is not trusted. Otherwise only its restrictions apply.
	Refuse bool

	// Approve blocks calls of tools whose definition differs from the approved definition. If Approve is false, such
	// differences are only reported.
	Approve bool
}

// DefaultAudit returns the audit settings of a configuration without an audit block.
func DefaultAudit() Audit { return Audit{MaxBytes: 64 << 20, MaxAge: 90 * 24 * time.Hour} }

// Root is an additional directory tree that tools can access.
type Root struct {
	Path     string
	Writable bool
}

// Plugin holds the settings of a plugin block.
type Plugin struct {
	Name string
	// Path is the absolute path of the binary.
	Path string
	Args []string
	Env  map[string]string
	// Field is the namespace of the plugin's tools. Empty means that the tools are agent tools.
	Field        string
	StartTimeout time.Duration
	// Config is the plugin's own configuration as JSON. Nil means that the plugin has no configuration.
	Config json.RawMessage
	// DependsOn lists the plugins that start before this plugin and stop after it.
	DependsOn []string
	// Restart limits how often a failing plugin is restarted.
	Restart Restart
	// Confinement changes the restrictions of the plugin's sandbox profile.
	Confinement Confinement
	// Profile is the sandbox profile before Confinement changes it. It comes from the manifest of the bundled plugin that
	// the binary is.
	Profile manifest.Profile
	// Bundled is the name of the bundled plugin that the binary is. Empty means that it is another program.
	Bundled string
	// Mounted reports whether the plugin belongs to a field block and serves the tools of another program.
	Mounted bool
	// Missing is the reason why the binary is unusable. Empty means that the binary is usable.
	Missing string

	at     position
	config bodyRanges
}

// Restart is the restart policy for a plugin that does not start or exits before it answers a call. Zero fields keep the
// defaults.
type Restart struct {
	// Failures is the number of consecutive failures after which the plugin is suspended for the duration of Pause.
	Failures int
	Pause    time.Duration
}

// Confinement changes a plugin's profile. Nil and zero fields leave it unchanged.
type Confinement struct {
	// Enforce overrides [Sandbox.Enforce] for this plugin. Empty means no override.
	Enforce string
	// WriteRoots permits writing in writable roots. NoRoots forbids all access to roots, including reading.
	WriteRoots, NoRoots, Exec, Network *bool
	// WriteGit permits writing the Git hooks and Git settings of repositories in the roots.
	WriteGit bool
	// Hosts lists network hosts that the plugin can reach without the Network permission. See package hostlist.
	Hosts []string
	// Read and Write are additional absolute paths. Run lists programs that the plugin can start.
	Read, Write, Run []string
	Limits           Limits
}

// Unlimited is the value of a limit that the operator removed.
const Unlimited = math.MaxUint64

// Limits restricts each process of a plugin. A zero field means the default, and [Unlimited] means no limit. CPU has no
// default.
type Limits struct {
	// Memory and FileSize are in bytes.
	Memory, FileSize uint64
	// Processes limits the number of processes and threads of the whole plugin. Files limits the number of open files
	// per process.
	Processes, Files uint64
	// Temporary limits the content of each directory in memory, such as /tmp, in bytes.
	Temporary uint64
	// CPU limits the processor time, in whole seconds.
	CPU time.Duration
	// Total restricts all processes of the plugin together.
	Total Totals
}

// Totals restricts all processes of a plugin together. Zero fields mean no limit, except that Memory has a default.
type Totals struct {
	// Memory is in bytes. [Unlimited] means no limit.
	Memory uint64
	// Processes is the number of processes and threads.
	Processes uint64
	// CPUs is the maximum number of busy processors. It can be a fraction.
	CPUs float64
}

// Alias is an additional name of a tool.
type Alias struct {
	Name string
	// Tool is the full name of the tool, such as "read" or "jira:search".
	Tool string
	// Params maps additional parameter names to the tool's own parameter names.
	Params map[string]string
	// Preset names the preset that defines the alias. Empty means that the operator defined it.
	Preset string

	at position
}

// DefaultHost returns the settings of a configuration without a host block.
func DefaultHost() Host {
	return Host{LogLevel: slog.LevelWarn, Timeout: 2 * time.Minute, MaxParallel: 10, AliasPresets: slices.Sorted(maps.Keys(Presets))}
}
