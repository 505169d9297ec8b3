package branchcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/cmd/internal/cli/terminal"
)

func newShell(s *globals.Settings) *cobra.Command {
	var command string
	c := &cobra.Command{
		Use:   "shell NAME",
		Short: "Run commands in a branch, in its sandbox",
		Long: `Run commands in a branch, from a prompt or one with -c. Each line is a call of bash in the same sandbox, with
the same rules and the same audit log as the calls of an agent. The directory and the variables are kept
between lines. The exit status of -c is the status of the command. Programs that need their own terminal, such
as editors, do not work.`,
		Example: `  toolhost branch shell fix1
  toolhost branch shell fix1 -c 'make test'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := with(s, func(b *admin.Branches) error { _, err := b.Changes(args[0]); return err }); err != nil {
				return err
			}
			if s.OnAsk == "" {
				s.OnAsk = "prompt"
			}
			h, err := s.OpenLive(c, host.Options{})
			if err != nil {
				return err
			}
			req := s.Request()
			req.Branch = args[0]
			if c.Flags().Changed("command") {
				return errors.Join(runOne(c, s, h, req, command), h.Close())
			}
			fmt.Fprintf(s.Err, "toolhost: this shell works in the branch %s. Its changes stay in the branch until toolhost branch apply %[1]s. Ctrl-D ends it.\n", args[0])
			p := terminal.Prompt{Stdio: s.Stdio, Host: h, Request: req, JSON: s.JSON, Shell: true}
			return errors.Join(p.Run(c.Context()), h.Close())
		},
	}
	c.Flags().StringVarP(&command, "command", "c", "", "run one `command` and end")
	return c
}

func runOne(c *cobra.Command, s *globals.Settings, h *host.Host, req host.Request, command string) error {
	client := terminal.New(s.Stdio, s.JSON)
	terminal.ShellRequest(client, h, &req, command)
	res := client.Run(c.Context(), h, req)
	if s.JSON {
		if err := screen.PrintJSON(s.Out, res); err != nil {
			return err
		}
	} else {
		client.Finish(res)
	}
	return process.ExitStatus(res)
}
