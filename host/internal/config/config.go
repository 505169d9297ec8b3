// Package config reads the operator's HCL into plain Go values: plugins, tools, field namespaces, roots and rules. Most
// callers want [Source.Load]. The API exposes no HCL types. Errors name the file and line.
package config

import (
	"encoding/json"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config/internal/diagnose"
	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/quota"
	"toolhost.dev/host/internal/rollout"
)

// Config is a complete and valid configuration. Some errors are only found when the plugins start.
type Config struct {
	// Source is the file or directory of the configuration, or "built-in".
	Source string
	// Path is the file or directory of the configuration. Empty means the built-in configuration.
	Path string
	// Untrusted is the reason why only the restrictions of a project file apply. It is empty if no project file exists
	// or if the whole file applies.
	Untrusted string
	// Invalid is the error that prevented the use of a project file. Nil means that no error was found.
	Invalid error
	// Trusted maps the files and programs that a person trusted to their SHA-256. It is nil if the configuration needs
	// no trust.
	Trusted map[string]string
	// Protected lists files that tools must not change, even if tools can write in the directories of these files.
	Protected []string

	// Restricted describes rights that the host took away. The host refused a newer configuration, but took away the
	// rights that this newer configuration lacks. It is empty for a configuration that applies as it was read.
	Restricted []string

	Host    Host
	Sandbox Sandbox
	Reload  Reload
	// Workspace determines whether sessions work in branches.
	Workspace Workspace
	Plugins   []Plugin
	Tools     map[string]Tool
	// Aliases contains additional names of tools: first the aliases of the enabled presets, and then the operator's
	// aliases.
	Aliases []Alias
	Hooks   []Hook
	// Permissions contains the permission rules for calls.
	Permissions Permissions
	// Access contains the principals and the issuers of their tokens. Principals are callers in addition to the local
	// user.
	Access principal.Blocks
	// Endpoints contains the endpoints of MCP servers in the order of the configuration.
	Endpoints []Endpoint
	// Fleet contains the settings of the fleet. It is nil without a fleet block.
	Fleet *Fleet
	// Quotas contains the limits of fields and principals.
	Quotas quota.Rules
	Audit  Audit
	// Retention limits how long the state directory keeps data.
	Retention Retention
	Tracing   Tracing
	// Record determines which sessions are recorded.
	Record Record
	Trust  Trust
	// Distribution contains the settings for plugins from registries.
	Distribution Distribution
	// LeftOut lists the optional plugins whose binaries are missing.
	LeftOut []string
	// Offers lists the tools of bundled plugins that require a block but have no block in the configuration.
	Offers []Offer
	// Off lists the plugins that the configuration turns off: bundled plugins, and plugins with enabled = false.
	Off []string

	absent []absentPlugin
	// files contains the text of each file that was read. The field "main" lists only the configuration
	// files. It omits the files with values of variables and the files that the function "file" read.
	files diagnose.Files
	// warnings describes settings that are valid but should be changed.
	warnings hcl.Diagnostics
	// unavailable describes the missing variables and files that made the decoder refuse blocks.
	unavailable hcl.Diagnostics
	main        []string
	lists       map[string]position // positions of lists of names of tools and fields, by the type and the name of the block
	// sensitive contains the names of sensitive values, such as "var.NAME" and "local.NAME". hide contains the texts of
	// these values.
	sensitive map[string]bool
	hide      []string
	// parsed contains the parsed files for [Config.Tree]. The field "from" contains the origins of variables.
	parsed []*hcl.File
	ctx    *hcl.EvalContext
	dir    string
	// bundledDir is the path of the directory with the bundled plugins.
	bundledDir string
	from       map[string]string
	// copies maps each program to a copy. The host runs the copy instead of the program.
	copies map[string]string
}

// absentPlugin is an optional plugin that is not in Plugins because its binary does not exist.
type absentPlugin struct {
	Plugin
	before int // index that the plugin would have in Plugins
}

// Host holds the settings of the host block.
type Host struct {
	// LogLevel is the minimum level of log messages on standard error.
	LogLevel slog.Level
	// StateDir is the state directory. Empty means the default directory of the user.
	StateDir string
	// OnAsk determines the answer to permission requests: "allow", "deny" or "prompt". If OnAsk is empty, the caller
	// answers.
	OnAsk string
	// Timeout is the timeout of a call if neither the tool nor the operator sets a timeout for the tool.
	Timeout time.Duration
	// MaxWait limits how long a call waits for other calls before it starts.
	MaxWait time.Duration
	// ShutdownTimeout is how long the host waits for running calls when it ends.
	ShutdownTimeout time.Duration
	// AliasPresets names the enabled sets of aliases. See [habit.Presets].
	AliasPresets []string
	// HealthInterval is the time between health checks of running plugins. Zero disables regular health checks.
	HealthInterval time.Duration
	// MaxParallel is the maximum number of concurrent calls of one session.
	MaxParallel int
	// Adaptive enables limits that depend on the durations of earlier calls. It also enables the cache for slow
	// results.
	Adaptive bool
	// MaxCalls is the maximum number of concurrent calls of all sessions. Zero means no limit.
	MaxCalls int
}

// Reload configures the reaction of a host to changed binaries and configuration files.
type Reload struct {
	// Watch enables automatic reloads after changes. A host that runs only one call ignores Watch.
	Watch bool
	// AnyChanges permits new plugin versions that are incompatible with their callers.
	AnyChanges bool
	// PrivilegeIncreases determines when the host applies a configuration that increases privileges. "approve" requires
	// an approval, "explicit" requires a reload by the user, and "allow" always applies the configuration.
	PrivilegeIncreases string
}

// Sandbox holds the settings of the sandbox block.
type Sandbox struct {
	// Workspace is the access to the workspace: "read-write" or "read-only".
	Workspace string
	// Narrowed reports that Workspace is "read-only" because of a project file and would otherwise be "read-write".
	Narrowed bool
	// Roots contains additional roots with absolute paths.
	Roots []Root
	// Strict rejects every ".." and every symbolic link in a path, even inside the roots.
	Strict bool
	// Allow and Deny contain globs for paths. A path must not match any glob in Deny. If Allow is not empty, the path
	// must match a glob in Allow.
	Allow, Deny []string
	// AllowRoot lists broad directories, such as the home directory, in which tools can write. By default, the host
	// forbids writing in broad directories. All paths are absolute.
	AllowRoot []string
	// Backend is the kernel mechanism that confines plugins. It is one of [sandbox.Words].
	Backend string
	// Enforce determines the reaction if the kernel cannot fully confine a plugin. With "auto", the plugin runs with
	// partial confinement. With "require", the plugin does not run. "off" disables confinement for all plugins.
	Enforce string
	// Repositories determines what the host does with repositories that commands create. With "quarantine", the host
	// removes their settings and hooks that run programs. With "off", it removes nothing.
	Repositories string
}

// Audit configures the audit log.
type Audit struct {
	// Off disables the audit log.
	Off bool
	// MaxBytes and MaxAge limit the audit log.
	MaxBytes uint64
	MaxAge   time.Duration
	// Secrets contains the values of environment variables that must not be recorded.
	Secrets []string
	// Continue permits calls at a time when the audit log cannot be written. By default, the host refuses such calls.
	Continue bool
}

// Trust configures the handling of files and definitions that no person has reviewed.
type Trust struct {
	// If Refuse is true, the host does not start with an untrusted project file that needs trust. By default, it starts
	// and applies only the restrictions in the file.
	Refuse bool

	// If Approve is true, the host refuses calls of tools whose definition differs from the approved definition. By
	// default, it only reports such differences.
	Approve bool
}

// ModeBranch is the value of [Workspace.Mode] with which each session works in a branch of its own.
const ModeBranch = "branch"

// Workspace holds the settings of the workspace block.
type Workspace struct {
	// Mode is "direct", [ModeBranch] or "require".
	Mode string
	// Backend is "auto", "overlay" or "copy".
	Backend     string
	Limits      BranchLimits
	Checkpoints Checkpoints
}

// BranchLimits limits branches.
type BranchLimits struct {
	// Layer is the maximum size, in bytes, of the changes in a branch. Files is the maximum number of files in these
	// changes.
	Layer uint64
	Files int
	// Age is the time after which a branch is removed if all its changes are applied.
	Age time.Duration
}

// Checkpoints configures the checkpoints of branches.
type Checkpoints struct {
	// Automatic makes a checkpoint before each call that can change files.
	Automatic bool
	// Keep is the maximum number of automatic checkpoints of a branch. Bytes is the maximum size of the data that all
	// checkpoints of a branch store.
	Keep  int
	Bytes uint64
	// Ignored means that checkpoints also store files that git ignores.
	Ignored bool
}

// Retention limits how long the state directory keeps data. For the audit log, see [Audit]. A zero field means the
// default.
type Retention struct {
	// Sessions is the time after which an unused session is deleted. History is the age at which a command is deleted
	// from the history of its session.
	Sessions, History time.Duration
	// Output is the age at which a file with long output is deleted. Undo is the age at which a change can no longer be
	// undone. They apply to the plugins that say that they keep such files; see [tool.Kept]. A plugin's own block has
	// priority.
	Output, Undo time.Duration
}

// Ages returns the ages that apply to the files of plugins.
func (r Retention) Ages() tool.Ages { return tool.Ages{Output: r.Output, Undo: r.Undo} }

// Tracing configures the destination of traces. For zero fields, environment variables apply.
type Tracing struct {
	// Off disables tracing, regardless of the environment variables.
	Off bool
	// Endpoint is the URL of a collector, without the path /v1/traces. Empty means that the environment variable
	// applies.
	Endpoint string
	Headers  map[string]string
	// Sample is the fraction of traces to record. Nil means that the environment variable applies. If the variable is
	// also unset, all traces are recorded.
	Sample *float64
}

// Record determines which sessions a host records on tapes. The zero value records none.
type Record struct {
	// Dir is the directory of the tapes. Empty means that no session is recorded.
	Dir string
	// Sessions contains globs for the IDs of sessions. The default session of a workspace has an empty ID.
	Sessions []string
	// Principals contains the names of principals whose sessions are recorded. Empty means all callers.
	Principals []string
	// Exclude contains globs for files of the workspace that the tapes do not contain.
	Exclude []string
	// MaxBytes limits the files of the workspace on a tape. Zero means the default.
	MaxBytes int64
	// Keep is the number of tapes that are kept in Dir.
	Keep int
}

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
	// Source and Version are the name of the plugin in a registry and the constraint for its versions. They are empty
	// for a plugin with a path.
	Source, Version string
	Args            []string
	Env             map[string]string
	// Field is the namespace of the plugin's tools. Empty means that the tools are agent tools.
	Field        string
	StartTimeout time.Duration
	// Config is the plugin's own configuration as JSON. Nil means that the plugin has no configuration.
	Config json.RawMessage
	// DependsOn lists the plugins that start before this plugin and stop after it.
	DependsOn []string
	// Calls contains globs for the full names of the tools that the plugin's own code is allowed to call. Nil means
	// none.
	Calls []string
	// Restart is the restart policy for the plugin.
	Restart Restart
	// Rollout makes a new version of the plugin serve a share of the sessions that grows in steps. Nil means that the
	// new version replaces the old one at once.
	Rollout *rollout.Settings
	// Confinement changes the restrictions of the plugin's sandbox profile.
	Confinement Confinement
	// Profile is the sandbox profile without the changes in Confinement. For a bundled plugin, its manifest contains
	// the profile.
	Profile manifest.Profile
	// Bundled is the name of the bundled plugin whose program the plugin runs. Empty means that the plugin runs another
	// program.
	Bundled string
	// Package is the package of an MCP server, such as "npm:NAME@RANGE". It is empty for other plugins.
	Package string
	// OAuth describes the login at the remote server of a field.
	OAuth OAuth
	// Mounted reports whether the plugin belongs to a field block and serves the tools of another program.
	Mounted bool
	// Added reports whether the plugin is a bundled plugin without a block in the configuration.
	Added bool
	// Missing is the reason why the host cannot run the binary. It is empty if the host can run the binary.
	Missing string
	// Refused is the reason why the host must not run the plugin. It is empty if the host can run the plugin.
	Refused string

	at     position
	config bodyRanges
	// optional means that a missing binary is no problem. off means that the plugin is not used.
	optional, off bool
}

// Restart is the restart policy for a plugin that does not start or exits before it answers a call. Zero fields keep
// the defaults.
type Restart struct {
	// Failures is the number of consecutive failures after which the plugin is suspended. Pause is the duration of the
	// suspension.
	Failures int
	Pause    time.Duration
}

// Confinement changes a plugin's sandbox profile. Nil and zero fields do not change the profile.
type Confinement struct {
	// Enforce replaces [Sandbox.Enforce] for this plugin. Empty means that [Sandbox.Enforce] applies.
	Enforce string
	// WriteRoots permits the plugin to write in writable roots. NoRoots forbids all access to roots, including reading.
	WriteRoots, NoRoots, Exec, Network *bool
	// WriteGit permits the plugin to write the Git hooks and Git settings of repositories in the roots.
	WriteGit bool
	// Hosts lists network hosts that the plugin can reach even without the permission Network. See package hostlist.
	Hosts []string
	// Read and Write list additional absolute paths for the plugin. Run lists programs that the plugin can start.
	Read, Write, Run []string
	Limits           Limits
}

// Unlimited is the value of a limit that the operator removed.
const Unlimited = math.MaxUint64

// Limits restricts each process of a plugin. A zero field means the default, and [Unlimited] means no limit. The field
// CPU has no default.
type Limits struct {
	// Memory and FileSize are in bytes.
	Memory, FileSize uint64
	// Processes limits the number of processes and threads of the whole plugin. Files limits the number of open files
	// per process.
	Processes, Files uint64
	// Temporary limits, in bytes, the size of each directory that is stored in memory, such as /var/tmp. The same limit
	// applies to the temporary files of a session.
	Temporary uint64
	// CPU limits the processor time, in whole seconds.
	CPU time.Duration
	// Total contains limits for all processes of the plugin together.
	Total Totals
}

// Totals restricts all processes of a plugin together. In the field Memory, zero means the default. In the other
// fields, zero means no limit.
type Totals struct {
	// Memory is in bytes. [Unlimited] means no limit.
	Memory uint64
	// Processes is the maximum number of processes and threads.
	Processes uint64
	// CPUs is the maximum number of processors in use. It can be fractional.
	CPUs float64
}

// Alias is an additional name of a tool.
type Alias struct {
	Name string
	// Tool is the full name of the tool, such as "read" or "jira:search". An alias of a preset has the Role of the tool
	// instead.
	Tool string
	Role tool.Role
	// Params maps additional parameter names to the tool's own parameter names.
	Params map[string]string
	// Preset is the preset that contains the alias. Empty means that the operator defined the alias.
	Preset string

	at position
}
