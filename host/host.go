// Package host is the Go library of toolhost. It loads tools from configured plugins and executes calls of these tools.
// Start with [New] and [Host.Run]:
//
//	h, err := host.New(ctx, host.Options{Workspace: dir})
//	if err != nil { … }
//	defer h.Close()
//	res := h.Run(ctx, host.Request{Command: "read main.go --limit 20"}, nil)
//
// These rules hold:
//   - A [Host] is safe for concurrent use.
//   - A call never returns a Go error. Its result contains any error, with a kind, a message with a remedy, and the
//     component that failed.
//   - Calls of one session share file states, working directory and shell state. Different sessions are independent.
//
// Package admin implements operations on configurations and on hosts in other processes.
package host

import (
	"context"
	"log/slog"

	"toolhost.dev/host/internal/engine"
)

// Version is the version of the host, as plugins and peers see it.
const Version = engine.Version

// Options holds the options of a host. The zero value uses the built-in configuration and the current directory.
type Options struct {
	// Config is a configuration file or directory. Empty means the built-in configuration, which enables the bundled
	// plugins.
	Config string
	// Variables are values of the configuration's variables, each as "NAME=VALUE". The last value for a name applies.
	// VariableFiles are files with more values. Variables override VariableFiles.
	Variables, VariableFiles []string
	// BundledDir is the directory of the bundled plugins. Empty means "plugins" beside the executable.
	BundledDir string
	// Workspace is the default root directory of sessions. Empty means the current directory.
	Workspace string
	// ReadOnly lets tools only read in the workspace.
	ReadOnly bool
	// Trust has digests of project files that are trusted for this host, as "toolhost trust" prints them: "sha256:…".
	Trust []string
	// RequireTrust makes New fail if the configuration is a project file that is not trusted. Otherwise only its
	// restrictions apply, on top of the user's or the built-in configuration.
	RequireTrust bool
	// TrustDir is the state directory with the decisions about project files. Empty means StateDir.
	TrustDir string
	// StateDir is the directory that stores sessions across runs. Empty means the configured directory, or else the
	// user's directory ($XDG_STATE_HOME/toolhost).
	StateDir string
	// OnAsk decides permission asks that the [Client] of a request cannot answer: "allow" or "deny". Empty means the
	// configured decision. A configured "prompt" counts as "deny".
	OnAsk string
	// Prompt forwards permission asks to the [Client] of a request if neither OnAsk nor the configuration decides them.
	// If Prompt is false, such asks are declined.
	Prompt bool
	// Log receives the logs of the host and of the plugins. Nil discards them.
	Log *slog.Logger
	// RetryFailed also starts plugins whose slow start failed less than a minute ago. By default, the host remembers
	// such a failure, so that the failure does not delay every run.
	RetryFailed bool
	// Live enables automatic reloads of changed binaries and configuration files. It also lets other processes of the
	// same user control the host through the state directory (admin.Running). Set it for a host that runs more than a
	// few calls.
	Live bool
	// Hooks are added to the configured hooks. At equal priority they run before the configured hooks.
	Hooks []Hook
	// OnConfig is called with the configured log level at the start and after each change. It can be nil.
	OnConfig func(level slog.Level)
}

// Host runs calls on the configured tools.
type Host struct{ engine *engine.Engine }

// New reads the configuration and registers the tools. The first call that needs a plugin starts the plugin. If a plugin
// has no saved description, New starts the plugin to get its description. A plugin that cannot be loaded does not affect
// other plugins. See [Host.Problems].
//
// New returns an error if the configuration is invalid, or if a plugin requires confinement but cannot be confined. The
// caller must call [Host.Close].
func New(ctx context.Context, opts Options) (*Host, error) {
	e, err := engine.New(ctx, engine.Options(opts))
	if err != nil {
		return nil, err
	}
	return &Host{e}, nil
}

// Close cancels all calls, stops every plugin and saves the sessions. It returns after all plugin processes exit. It can
// be called more than once.
func (h *Host) Close() error { return h.engine.Close() }

// Problems lists everything that does not work, such as plugins that were not loaded and tools that were not registered.
// It returns an empty list if there are no problems.
func (h *Host) Problems() []string { return h.engine.Problems() }
