package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
)

// settings are the global flags.
type settings struct {
	config    string
	vars      []string
	varFiles  []string
	workspace string
	session   string
	state     string
	onAsk     string
	logLevel  string
	json      bool
}

func newRoot() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:   "toolhost",
		Short: "The tool host for LLM agents",
		Long: `toolhost gives an LLM agent its tools. One command string reads a file, edits it,
searches, or runs in the shell; each tool is a plugin binary of its own.`,
		Example: `  toolhost run 'read main.go --limit 20'
  toolhost run 'go test ./...'
  toolhost tools
  toolhost repl`,
		Version:       host.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return s.check()
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&s.config, "config", "", "configuration `file` or directory (default: $TOOLHOST_CONFIG, ./toolhost.hcl, the user's, the built-in one)")
	f.StringArrayVar(&s.vars, "var", nil, "`NAME=VALUE` of a variable of the configuration")
	f.StringArrayVar(&s.varFiles, "var-file", nil, "`file` with values of variables of the configuration")
	f.StringVar(&s.workspace, "workspace", "", "the read-write root `directory` (default: the current directory)")
	f.StringVar(&s.session, "session", "", "session `id`: file states, working directory and shell state last across runs (default: the workspace's own)")
	f.StringVar(&s.state, "state", "", "`directory` for sessions and caches (default: the user's state directory)")
	f.StringVar(&s.onAsk, "on-ask", "", "what becomes of permission asks: `allow|deny|prompt` (default: what the configuration says, else deny)")
	f.StringVar(&s.logLevel, "log-level", "", "log to standard error from this `level` on: debug|info|warn|error (default: what the configuration says, else warn)")
	f.BoolVar(&s.json, "json", false, "print JSON")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w\nSee %s --help", err, c.CommandPath())
	})
	root.AddCommand(newRun(&s), newBatch(&s), newExplain(&s), newTools(&s), newRepl(&s), newPolicy(&s), newLog(&s), newStatus(&s), newStats(&s), newDoctor(&s), newConfig(&s), newPlugin(&s), newMCP(&s), newServe(&s), newVersion(&s), newReference(), newMan())
	for _, c := range allCommands(root) {
		if c != root && c.HasSubCommands() && !c.Runnable() {
			c.RunE = group
		}
	}
	s.completions(root)
	return root
}

// group is what a command does that has others: show them, but when it is given one that there is not.
func group(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	var known []string
	for _, inner := range c.Commands() {
		known = append(known, inner.Name())
	}
	return fmt.Errorf("there is no command %q.%s See %s --help", c.CommandPath()+" "+args[0], suggest.DidYouMean(args[0], known), c.CommandPath())
}

func (s *settings) check() error {
	switch s.onAsk {
	case "", "allow", "deny", "prompt":
	default:
		return fmt.Errorf("--on-ask %q: use allow, deny or prompt", s.onAsk)
	}
	var l slog.Level
	if s.logLevel != "" && l.UnmarshalText([]byte(s.logLevel)) != nil {
		return fmt.Errorf("--log-level %q: use debug, info, warn or error", s.logLevel)
	}
	return nil
}

// options are what a host is opened with.
func (s *settings) options() host.Options {
	return host.Options{Config: admin.FindConfig(s.config), Variables: s.vars, VariableFiles: s.varFiles, Workspace: s.workspace, StateDir: s.state}
}

// open makes the host that a command works with.
func (s *settings) open(c *cobra.Command) (*host.Host, error) { return s.openWith(c, host.Options{}) }

func (s *settings) openWith(c *cobra.Command, opts host.Options) (*host.Host, error) {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}))
	common := s.options()
	opts.Config, opts.Variables, opts.VariableFiles = common.Config, common.Variables, common.VariableFiles
	opts.Workspace, opts.StateDir, opts.OnAsk, opts.Log = common.Workspace, common.StateDir, s.onAsk, log
	opts.OnConfig = func(l slog.Level) {
		if s.logLevel != "" {
			_ = l.UnmarshalText([]byte(s.logLevel)) // checked before
		}
		level.Set(l)
	}
	h, err := host.New(c.Context(), opts)
	if err != nil {
		return nil, err
	}
	for _, p := range h.Problems() {
		fmt.Fprintln(os.Stderr, "toolhost:", p)
	}
	if len(h.Tools()) == 0 {
		err := errors.New("no tool is available")
		if len(h.Problems()) == 0 {
			err = fmt.Errorf("%w: no plugin was found in %s; build them with make build, or name them in a configuration", err, admin.BundledDir())
		}
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// openLive makes a host that goes on while its plugins and its configuration change. SIGHUP
// has it look for changes, but at a terminal, where it says that the terminal is gone.
func (s *settings) openLive(c *cobra.Command, opts host.Options) (*host.Host, error) {
	opts.Live = true
	h, err := s.openWith(c, opts)
	if err == nil && !term.IsTerminal(int(os.Stdin.Fd())) {
		onHangup(func() {
			go func() { _, _ = h.Reload(c.Context(), host.ReloadOptions{}) }() // what is refused is logged
		})
	}
	return h, err
}

// withoutTime drops the time from log lines: they stand beside a command's output.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// request is what every command's calls have in common.
func (s *settings) request() host.Request {
	return host.Request{Session: s.session, Trace: os.Getenv("TRACEPARENT")}
}
