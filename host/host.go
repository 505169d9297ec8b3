// Package host is toolhost as a Go library: it loads tools from plugins as a configuration says, and runs calls on them.
// Start with [New] and [Host.Run]:
//
//	h, err := host.New(ctx, host.Options{Workspace: dir})
//	if err != nil { … }
//	defer h.Close()
//	res := h.Run(ctx, host.Request{Command: "read main.go --limit 20"}, nil)
//
// These rules hold:
//   - A [Host] is safe for concurrent use.
//   - A call never returns a Go error. Whatever goes wrong is in its result, with a kind, a message that says what to do
//     next, and whose failure it was.
//   - Calls of one session see its files, working directory and shell state; calls of different sessions do not affect
//     each other's.
//
// Package admin has what an operator asks of a configuration, or of hosts in other processes.
package host

import (
	"context"
	"log/slog"

	"toolhost.dev/host/internal/engine"
)

// Version is the version of the host, as plugins and peers see it.
const Version = engine.Version

// Options of a host. The zero value uses the built-in configuration and the current directory.
type Options struct {
	// Config is a configuration file or directory. Empty means the built-in default, which enables the bundled plugins.
	Config string
	// Variables are values for the configuration's variables, each "NAME=VALUE". The last one of a name counts.
	// VariableFiles contain more of them and count less.
	Variables, VariableFiles []string
	// BundledDir is the directory of the bundled plugins. Empty means "plugins" beside the executable.
	BundledDir string
	// Workspace is the root directory of sessions that name none. Empty means the current directory.
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
	// StateDir is the directory that keeps sessions across runs. Empty means the configured one, or else the user's
	// ($XDG_STATE_HOME/toolhost).
	StateDir string
	// OnAsk decides permission asks of requests whose [Client] cannot: "allow" or "deny". Empty means the configured
	// decision, where "prompt" counts as "deny".
	OnAsk string
	// Prompt sends permission asks to the [Client] of a request if neither OnAsk nor the configuration decides them.
	// Otherwise they are declined.
	Prompt bool
	// Log receives the logs of the host and of the plugins. Nil discards them.
	Log *slog.Logger
	// RetryFailed starts plugins again whose start failed slowly less than a minute ago. Otherwise such a failure is
	// remembered, so that it does not delay every run.
	RetryFailed bool
	// Live makes the host apply changed binaries and configuration files automatically, and answer other processes of the
	// user that use the same state directory (admin.Running). Set it for a host that lives longer than a few calls.
	Live bool
	// Hooks take part in the life of tools and calls, in addition to the configured hooks. They come first where the
	// priority is the same.
	Hooks []Hook
	// OnConfig is called with the configured log level as soon as it is known, and again when it changes. It may be nil.
	OnConfig func(level slog.Level)
}

// Host runs calls on the configured tools.
type Host struct{ engine *engine.Engine }

// New reads the configuration and registers the tools. A plugin is started by the first call that needs it; one that was
// never described before is started once to ask what it serves. A plugin that cannot be loaded does not affect the others:
// see [Host.Problems].
//
// The error says that the configuration is invalid, or that a plugin must run confined and cannot. The caller must call
// [Host.Close].
func New(ctx context.Context, opts Options) (*Host, error) {
	e, err := engine.New(ctx, engine.Options(opts))
	if err != nil {
		return nil, err
	}
	return &Host{e}, nil
}

// Close ends the running calls, stops every plugin and saves the sessions. It returns when no process is left. It may be
// called more than once.
func (h *Host) Close() error { return h.engine.Close() }

// Problems describes everything that does not work: plugins that could not be loaded, and tools that could not be
// registered. It returns an empty list if there is nothing.
func (h *Host) Problems() []string { return h.engine.Problems() }
