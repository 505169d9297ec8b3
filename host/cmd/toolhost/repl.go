package main

import (
	"errors"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
	"toolhost.dev/host/cmd/toolhost/internal/report"
	"toolhost.dev/host/cmd/toolhost/internal/terminal"
)

func newRepl(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "repl",
		Short: "Run commands from a prompt",
		Long: `Run commands from a prompt, in one session, with the plugins kept warm. The arrow keys
reach the session's history, also of earlier runs; the tab key completes tools, parameters
and paths. An open quote or heredoc goes on in the next line. Ctrl-C ends the running
command, Ctrl-D the prompt. The line "status" shows the plugins as they run now.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.OnAsk == "" {
				s.OnAsk = "prompt"
			}
			h, err := s.OpenLive(c, host.Options{})
			if err != nil {
				return err
			}
			p := terminal.Prompt{Host: h, Request: s.Request(), JSON: s.JSON, Status: report.Status}
			return errors.Join(p.Run(c.Context()), h.Close())
		},
	}
}
