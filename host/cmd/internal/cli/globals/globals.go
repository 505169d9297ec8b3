// Package globals implements the global flags of the toolhost commands. [Settings] contains their values, and opens the
// host that they select.
package globals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/fleet/local"
	"toolhost.dev/host/recording"
)

// Settings contains the values of the global flags.
type Settings struct {
	process.Stdio // of the command

	Config    string
	Vars      []string
	VarFiles  []string
	Workspace string
	ReadOnly  bool
	// Trust contains digests of trusted project files. RequireTrust makes the host reject all other project files.
	Trust        []string
	RequireTrust bool
	Session      string
	// On is the node of the fleet on which calls run, or WORKSPACE@NODE. Empty means this process.
	On string
	// Branch is the branch of all requests. Empty means the workspace itself.
	Branch   string
	State    string
	OnAsk    string
	LogLevel string
	// LogFormat is the format of log lines: "text" or "json". LogTime adds the time to lines in the format "text".
	// Lines in the format "json" always contain the time.
	LogFormat string
	LogTime   bool
	JSON      bool
	// FromTape is the path of a tape with recorded results, which are returned for all calls. Empty means that calls
	// run.
	FromTape string
	// Edit changes the text of a problem before it is printed. It can be nil.
	Edit func(problem string) string
}

// Check returns an error if a flag has an invalid value. It applies the format of the log to standard error.
func (s *Settings) Check() error {
	switch s.OnAsk {
	case "", "allow", "deny", "prompt":
	default:
		return fmt.Errorf("--on-ask %q: use allow, deny or prompt", s.OnAsk)
	}
	switch s.LogFormat {
	case "", "text", "json":
	default:
		return fmt.Errorf("--log-format %q: use text or json", s.LogFormat)
	}
	if s.LogFormat == "json" {
		s.Err = process.NewJSONLines(s.Err) // also messages that are not from the log
	}
	var l slog.Level
	if s.LogLevel != "" && l.UnmarshalText([]byte(s.LogLevel)) != nil {
		return fmt.Errorf("--log-level %q: use debug, info, warn or error", s.LogLevel)
	}
	return nil
}

// Log returns a log on standard error in the format that the flags select.
func (s *Settings) Log(level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(s.Err, opts))
	}
	if !s.LogTime {
		opts.ReplaceAttr = WithoutTime
	}
	return slog.New(slog.NewTextHandler(s.Err, opts))
}

// Options returns the options of a host according to the flags.
func (s *Settings) Options() host.Options {
	var files []string
	for _, f := range s.VarFiles {
		files = append(files, s.Path(f))
	}
	return host.Options{
		Config: admin.FindConfig(s.Path(s.Config), s.Dir, s.Getenv), Variables: s.Vars, VariableFiles: files,
		Workspace: cmp.Or(s.Path(s.Workspace), s.Dir), StateDir: s.Path(s.State),
		ReadOnly: s.ReadOnly, Trust: s.Trust, RequireTrust: s.RequireTrust,
	}
}

// Inspection returns the options of a host for commands that inspect plugins. Such a host also starts plugins whose
// last start recently failed.
func (s *Settings) Inspection() host.Options {
	opts := s.Options()
	opts.RetryFailed = true
	return opts
}

// Request returns the fields that all requests of a command share.
func (s *Settings) Request() host.Request {
	req := host.Request{Session: s.Session, Branch: s.Branch, Trace: s.Getenv("TRACEPARENT")}
	if s.On != "" && !strings.Contains(s.On, "@") {
		req.Workspace = "@"
	}
	req.Workspace += s.On
	return req
}

// Records opens the state directory that the flags select.
func (s *Settings) Records() (*admin.Records, error) { return admin.OpenRecords(s.Options()) }

// Open starts a host and prints the problems of plugins. It returns an error if no tool is available.
func (s *Settings) Open(c *cobra.Command) (*host.Host, error) {
	return s.open(c, host.Options{}, (*host.Host).Problems)
}

// OpenOnce is like Open, but for a process that runs only one command. If an earlier process printed the problem of a
// broken plugin, OpenOnce prints it only after the plugin changed.
func (s *Settings) OpenOnce(c *cobra.Command) (*host.Host, error) {
	return s.open(c, host.Options{}, (*host.Host).NewProblems)
}

// OpenWith is like Open, but with additional options of the caller.
func (s *Settings) OpenWith(c *cobra.Command, opts host.Options) (*host.Host, error) {
	return s.open(c, opts, (*host.Host).Problems)
}

func (s *Settings) open(c *cobra.Command, opts host.Options, problems func(*host.Host) []string) (*host.Host, error) {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	log := s.Log(level)
	common := s.Options()
	opts.Config, opts.Variables, opts.VariableFiles = common.Config, common.Variables, common.VariableFiles
	opts.Workspace, opts.StateDir, opts.OnAsk, opts.Log = common.Workspace, common.StateDir, s.OnAsk, log
	opts.ReadOnly, opts.Trust, opts.RequireTrust = common.ReadOnly, common.Trust, common.RequireTrust
	opts.OnConfig = func(l slog.Level) {
		if s.LogLevel != "" {
			_ = l.UnmarshalText([]byte(s.LogLevel)) // ignore the error: Check validated the level
		}
		level.Set(l)
	}
	h, err := host.New(c.Context(), opts)
	if err != nil {
		return nil, err
	}
	if s.On != "" {
		return s.connected(h)
	}
	for _, p := range problems(h) {
		if s.Edit != nil {
			p = s.Edit(p)
		}
		fmt.Fprintln(s.Err, "toolhost:", screen.Clean(p))
	}
	if !hasTools(h) {
		err := errors.New("no tool is available")
		if len(h.Problems()) == 0 {
			err = fmt.Errorf("%w: %s", err, noPlugins())
		}
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// connected connects a host to the node of the fleet on this machine. The node runs the calls, so problems of this host
// do not matter.
func (s *Settings) connected(h *host.Host) (*host.Host, error) {
	n, err := local.Dial(h)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--on %s: %w", s.On, err), h.Close())
	}
	h.Join(n) // the connection ends with this process
	return h, nil
}

func hasTools(h *host.Host) bool {
	for range h.AllTools() {
		return true
	}
	return false
}

// noPlugins explains why a host has no plugins although it reports no problems. The text contains a remedy.
func noPlugins() string {
	dir := admin.BundledDir()
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "the configuration turns all plugins off; remove bundled = false, or add plugin blocks"
	}
	return fmt.Sprintf("no plugins were found in %s; build them with make build, or name them in a configuration", dir)
}

// OnFlag adds the flag --on to a command that runs calls.
func (s *Settings) OnFlag(c *cobra.Command) {
	c.Flags().StringVar(&s.On, "on", "", "run on this `node` of the fleet, or in WORKSPACE@NODE; toolhost serve --fleet must run on this machine")
}

// TapeFlag adds the flag --from-tape to a command that serves calls.
func (s *Settings) TapeFlag(c *cobra.Command) {
	c.Flags().StringVar(&s.FromTape, "from-tape", "", "answer the calls from a `tape` of toolhost record; no tool runs")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if s.FromTape == "" {
			return run(c, args)
		}
		config, remove, err := recording.ConfigFromTape(s.Path(s.FromTape))
		if err != nil {
			return err
		}
		defer remove()
		s.Config = config
		return run(c, args)
	}
}

// OpenLive starts a host that reloads changed plugins and configuration files. SIGHUP triggers an immediate reload. If
// standard input is a terminal, SIGHUP still ends the program, because it then means that the terminal was closed.
func (s *Settings) OpenLive(c *cobra.Command, opts host.Options) (*host.Host, error) {
	opts.Live = true
	h, err := s.OpenWith(c, opts)
	if err == nil && !screen.IsTerminal(s.In) {
		s.Signals.OnHangup(func() {
			go func() { _, _ = h.Reload(c.Context(), host.ReloadOptions{}) }() // ignore errors: the host logs rejected changes
		})
	}
	return h, err
}

// WithoutTime removes the time from log lines, because the lines appear within the output of a command.
func WithoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// maxCompleted is the maximum number of sessions in a completion.
const maxCompleted = 100

// PluginNames returns the names of the configured plugins for completion. On an error it returns nil.
func (s *Settings) PluginNames(context.Context) []string {
	names, _ := admin.PluginNames(s.Options())
	return names
}

// ToolNames returns the names of the callable tools for completion. On an error it returns nil.
func (s *Settings) ToolNames(ctx context.Context) []string {
	h, err := host.New(ctx, s.Options())
	if err != nil {
		return nil
	}
	var out []string
	for _, t := range h.Tools() {
		if t.Enabled {
			out = append(out, t.FullName)
		}
	}
	_ = h.Close()
	return out
}

// SessionNames returns the names of the most recently used sessions for completion. On an error it returns nil.
func (s *Settings) SessionNames(context.Context) []string {
	r, err := s.Records()
	if err != nil {
		return nil
	}
	names, _ := r.SessionNames(maxCompleted)
	_ = r.Close()
	return names
}
