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
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/engine"
)

// Version is the version of the host, as plugins and peers see it.
const Version = engine.Version

// Options holds the options of a host. The zero value uses the built-in configuration and the current directory.
type Options struct {
	// Config is a configuration file or directory. Empty means the built-in configuration, which enables the bundled
	// plugins.
	Config string
	// Variables contains values of the configuration's variables in the form "NAME=VALUE". If a name occurs several
	// times, the last value applies. VariableFiles contains files with further values. Variables overrides
	// VariableFiles.
	Variables, VariableFiles []string
	// BundledDir is the directory of the bundled plugins, such as libexec/toolhost/plugins of an installation. Empty
	// means "plugins" beside the executable.
	BundledDir string
	// Workspace is the default root directory of sessions. Empty means the current directory.
	Workspace string
	// Secrets are files that tools must neither read nor replace, such as tokens, by the flags or names for messages.
	// If tools can reach one, New returns an error, a reload is refused, and a request with such a workspace, too.
	// Workspaces are further workspaces for this check at the start. A name that ends in "/*" means each directory in
	// it.
	Workspaces []string
	Secrets    map[string]string
	// ReadOnly prevents tools from writing in the workspace.
	ReadOnly bool
	// Trust contains digests of project files that are trusted for this host. "toolhost trust" prints digests in the
	// form "sha256:…".
	Trust []string
	// RequireTrust makes New fail if the project file needs trust and is not trusted. By default, the host applies only
	// the restrictions in an untrusted project file, together with the user's or the built-in configuration.
	RequireTrust bool
	// TrustDir is the state directory with the trust decisions about project files. Empty means StateDir.
	TrustDir string
	// StateDir is the directory in which sessions are saved between runs. If it is empty, the directory in the
	// configuration applies, or else the user's directory ($XDG_STATE_HOME/toolhost).
	StateDir string
	// OnAsk is the answer to permission asks that the [Client] of a request cannot answer: "allow" or "deny". If OnAsk
	// is empty, the answer in the configuration applies. The configured answer "prompt" means "deny" here.
	OnAsk string
	// Prompt forwards permission asks to the [Client] of a request, unless OnAsk or the configuration contains the
	// answer. Without Prompt, such asks are declined.
	Prompt bool
	// Log receives the logs of the host and of the plugins. Nil discards them.
	Log *slog.Logger
	// RetryFailed starts a plugin even if its last slow start failed less than a minute ago. By default, the host does
	// not start such a plugin, because the failure would delay every run.
	RetryFailed bool
	// Live enables automatic reloads of changed binaries and configuration files. It also permits other processes of
	// the same user to control the host through the state directory; see admin.Running. Set Live for a host that runs
	// more than a few calls.
	Live bool
	// Hooks contains hooks of the embedding program. They run before configured hooks with equal priority.
	Hooks []Hook
	// OnConfig is called with the configured log level at the start and after each change of the configuration.
	// OnConfig can be nil.
	OnConfig func(level slog.Level)
	// Pulse is the time without events after which a running or waiting call reports its progress, so that clients can
	// tell that it is alive. Zero means 10 seconds.
	Pulse time.Duration
}

// Host runs calls on the configured tools.
type Host struct {
	engine *engine.Engine
	fleet  atomic.Pointer[Fleet] // nil if the host is in no fleet
}

// New reads the configuration and registers the tools. The first call that needs a plugin starts the plugin. If a
// plugin has no saved description, New starts the plugin to get its description. A plugin that cannot be loaded does
// not affect other plugins. See [Host.Problems].
//
// New returns an error if the configuration is invalid, if a plugin requires confinement but cannot be confined, or if
// there is no configuration and BundledDir has no plugins. The caller must call [Host.Close].
func New(ctx context.Context, opts Options) (*Host, error) {
	e, err := engine.New(ctx, engine.Options(opts))
	if err != nil {
		return nil, err
	}
	return &Host{engine: e}, nil
}

// Close cancels all calls, stops every plugin and saves the sessions. It returns after all plugin processes exit. The
// caller can call Close more than once.
func (h *Host) Close() error { return h.engine.Close() }

// Problems lists all known failures, such as plugins that were not loaded and tools that were not registered. Without
// problems, the list is empty.
func (h *Host) Problems() []string { return h.engine.Problems() }

// NewProblems is like Problems, but without the failures of plugins that an earlier run with this configuration already
// returned. It is for programs that run one command and exit. They would otherwise print the same problems at each run.
func (h *Host) NewProblems() []string { return h.engine.NewProblems() }

// WhyUnloaded returns the reason why the plugin of a tool was not loaded, with a remedy. The argument is the name of
// the tool, also as a function. WhyUnloaded returns "" for any other name.
func (h *Host) WhyUnloaded(name string) string { return h.engine.Current().WhyUnloaded(name) }

// CodeShutdown was the code of the error for calls that arrive while the host shuts down.
//
// Deprecated: Errors have the code of their kind. Use [Reason].
const CodeShutdown = 503

// [Reason] returns one of these reasons for a refused request.
const (
	ReasonWorkspace = engine.ReasonWorkspace // the principal is not allowed to use the workspace
	ReasonShutdown  = engine.ReasonShutdown  // the host shuts down
	ReasonRequest   = engine.ReasonRequest   // the text is not a valid request, so no call was made of it
)

// Reason returns the reason for which a host refused a request before it looked for the tool, or "".
func Reason(e *tool.Error) string { return engine.Reason(e) }

// Listening describes the socket of a server for [Host.OfferListener].
type Listening = engine.Listening

// Drain refuses new calls with the kind unavailable. It waits until all running calls end, but at most for the
// shutdown_timeout of the configuration. Then the caller must close the host, which cancels the remaining calls.
func (h *Host) Drain(ctx context.Context) { h.engine.Drain(ctx) }

// Ready returns an error if the host no longer accepts calls.
func (h *Host) Ready() error { return h.engine.Ready() }

// Usable returns an error if no call can succeed. Reasons are that the host no longer accepts calls, that its audit log
// cannot be written, or that no plugin is usable.
func (h *Host) Usable(ctx context.Context) error { return h.engine.Usable(ctx) }

// Yield waits until no more calls arrive after another host has taken over new connections. It refuses no calls. It
// waits at most for the shutdown_timeout of the configuration.
func (h *Host) Yield(ctx context.Context) { h.engine.Yield(ctx) }

// Share makes the host write each change of a session before it answers the call, so that other hosts see the change.
// It must be called before another host takes over the calls of this host.
func (h *Host) Share() error { return h.engine.Share() }

// OfferListener lets another process of the same user acquire the socket of a server.
func (h *Host) OfferListener(l Listening) { h.engine.Siblings().OfferListener(l) }

// OfferConsole lets other processes of the same user get links to the web console of this host, with admin.Remote. The
// function link returns a new one-time link.
func (h *Host) OfferConsole(link func() string) { h.engine.Siblings().OfferConsole(link) }

// Taken is a socket that [Host.TakeListener] acquired from another host.
type Taken = engine.Taken

// TakeListener acquires the socket with the given address from another running host. That host listens on the address
// and has the same state directory. The caller must first serve the listener and then call Serving, which ends the
// other host. If it cannot serve the listener, it must call Return.
func (h *Host) TakeListener(ctx context.Context, address string) (*Taken, error) {
	return h.engine.Siblings().TakeListener(ctx, address)
}

// ErrStopped is the cause for canceling the contexts of calls when a program shuts down; see [context.Cause]. With this
// cause, the results of the calls report that the program stopped. Otherwise they report that the caller canceled the
// calls.
var ErrStopped = engine.ErrStopped

// ErrSealed is the error of [Host.Unseal] for a text that is not valid.
var ErrSealed = engine.ErrSealed

// Seal encrypts and authenticates a value that a client stores and sends back. Only [Host.Unseal] with the same purpose
// decrypts it. This also works in another process with the same state directory. If the host has no state directory,
// Seal returns an error.
func (h *Host) Seal(value, purpose []byte) (string, error) { return h.engine.Seal(value, purpose) }

// Unseal decrypts a text that [Host.Seal] returned. It returns [ErrSealed] if the text was changed, if it was sealed
// for another purpose, or if its key was deleted.
func (h *Host) Unseal(text string, purpose []byte) ([]byte, error) {
	return h.engine.Unseal(text, purpose)
}
