package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/branchcmd"
	"toolhost.dev/host/cmd/internal/cli/configcmd"
	"toolhost.dev/host/cmd/internal/cli/fleetcmd"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/plugincmd"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/report"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/cmd/internal/cli/setupcmd"
	"toolhost.dev/host/cmd/internal/cli/statecmd"
	"toolhost.dev/host/cmd/internal/cli/tapecmd"

	"toolhost.dev/host"
)

func newRoot(stdio process.Stdio) *cobra.Command {
	s := globals.Settings{Stdio: stdio}
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
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if c.Name() == cobra.ShellCompRequestCmd { // other commands start faster without completions
				completions(&s, c.Root())
			}
			err := s.Check()
			c.Root().SetErr(s.Err)
			return err
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&s.Config, "config", "", "configuration `file` or directory (default: $TOOLHOST_CONFIG, ./toolhost.hcl, the user's, the built-in one)")
	f.StringArrayVar(&s.Vars, "var", nil, "`NAME=VALUE` of a variable of the configuration")
	f.StringArrayVar(&s.VarFiles, "var-file", nil, "`file` with values of variables of the configuration")
	f.StringVar(&s.Workspace, "workspace", "", "the read-write root `directory` (default: the current directory)")
	f.BoolVar(&s.ReadOnly, "read-only", false, "let tools only read in the workspace")
	f.StringArrayVar(&s.Trust, "trust", nil, "`digest` of a project file that is trusted for this run (see toolhost trust)")
	f.BoolVar(&s.RequireTrust, "require-trust", false, "refuse to start with a project file that is not trusted")
	f.StringVar(&s.Session, "session", "", "session `id`: file states, working directory and shell state are kept across runs (default: the session of the workspace)")
	f.StringVar(&s.Branch, "branch", "", "`name` of the branch to work in: a layer over the workspace that receives all changes (see toolhost branch)")
	f.StringVar(&s.State, "state", "", "`directory` for sessions and caches (default: the user's state directory)")
	f.StringVar(&s.OnAsk, "on-ask", "", "how permission asks are answered: `allow|deny|prompt` (default: from the configuration, else deny)")
	f.StringVar(&s.LogFormat, "log-format", "text", "`format` of the log on standard error: text|json")
	f.StringVar(&s.LogLevel, "log-level", "", "log to standard error from this `level` on: debug|info|warn|error (default: from the configuration, else warn)")
	f.BoolVar(&s.JSON, "json", false, "print JSON")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w\nSee %s --help", err, c.CommandPath())
	})
	root.AddCommand(newRun(&s), newBatch(&s), newExplain(&s), newTools(&s), newRepl(&s), newPolicy(&s),
		branchcmd.New(&s), report.NewLog(&s), report.NewStatus(&s), report.NewStats(&s), report.NewDoctor(&s),
		configcmd.New(&s), configcmd.NewTrust(&s), configcmd.NewQuarantine(&s), setupcmd.New(&s), statecmd.New(&s),
		plugincmd.New(&s), tapecmd.NewRecord(&s), tapecmd.NewReplay(&s), newMCP(&s), newServe(&s), fleetcmd.New(&s),
		newConsole(&s), newToken(&s), newVersion(&s), newReference(&s), newMan(&s))
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetHelpCommand(newHelp(&s))
	for _, c := range allCommands(root) {
		explainArguments(c)
		if c != root && c.HasSubCommands() && !c.Runnable() {
			c.RunE = runGroup
		}
	}
	return root
}

// runGroup prints the help of a command with subcommands, or an error for an unknown subcommand.
func runGroup(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	return fmt.Errorf("%s See %s --help", unknownCommand(c, args[0]), c.CommandPath())
}

func newVersion(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, its build and its protocols",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := admin.Build()
			if s.JSON {
				return screen.PrintJSON(s.Out, b)
			}
			commit := "not known"
			if b.Commit != "" {
				commit = b.Commit
				if b.Modified {
					commit += " with changes"
				}
				commit += " " + b.Time
			}
			protocols := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(b.PluginProtocols)), ", "), "[]")
			_, err := fmt.Fprintf(s.Out, "toolhost %s\ncommit %s\nbuilt with %s for %s\nplugin protocols %s\n", b.Version, commit, b.Go, b.Platform, protocols)
			return err
		},
	}
}
