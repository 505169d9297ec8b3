package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/report"
	"toolhost.dev/host/cmd/internal/cli/terminal"
)

func newRepl(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "repl",
		Short: "Run commands from a prompt",
		Long: `Run commands from a prompt, in one session, with the plugins kept warm. The arrow keys
reach the session's history, also of earlier runs; Ctrl-R searches it. The tab key completes
tools, fields, parameters and paths, and lists them if several fit. An open quote or heredoc
goes on in the next line, and pasted lines run after Enter.

Ctrl-C ends the running command, or clears what is typed. Only Ctrl-D at an empty line,
"exit" and a closed terminal end the prompt. What is typed while a command runs is kept for
the next one, and never answers an ask. The line "status" shows the plugins as they run now.

NO_COLOR turns the colors off. Keys are set in ~/.inputrc, as for other programs with a
prompt; $if toolhost marks what is for toolhost alone.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.OnAsk == "" {
				s.OnAsk = "prompt"
			}
			h, err := s.OpenLive(c, host.Options{})
			if err != nil {
				return err
			}
			p := terminal.Prompt{Stdio: s.Stdio, Host: h, Request: s.Request(), JSON: s.JSON, Status: report.Status}
			return errors.Join(p.Run(c.Context()), h.Close())
		},
	}
	s.OnFlag(c)
	return c
}
