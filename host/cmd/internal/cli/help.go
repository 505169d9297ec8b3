package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/cmd/internal/cli/terminal"
)

// newHelp returns the command "help". It prints the help of a command of this program, or the help of a tool in the
// configuration.
func newHelp(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "help [COMMAND | TOOL]",
		Short: "Describe a command or a tool",
		Example: `  toolhost help config show
  toolhost help read`,
		RunE: func(c *cobra.Command, args []string) error {
			if found, rest, err := c.Root().Find(args); err == nil && (len(rest) == 0 || found != c.Root()) {
				found.InitDefaultHelpFlag()
				return found.Help()
			}
			h, err := s.OpenOnce(c)
			if err != nil {
				return err
			}
			if err := knownTool(h, args); err != nil {
				return errors.Join(err, h.Close())
			}
			req := s.Request()
			req.Command = args[0] + " --help"
			client := terminal.New(s.Stdio, s.JSON)
			res := client.Run(c.Context(), h, req)
			if err := h.Close(); err != nil {
				return err
			}
			if s.JSON {
				if err := screen.PrintJSON(s.Out, res); err != nil {
					return err
				}
			} else {
				client.Finish(res)
			}
			return process.ExitStatus(res)
		},
	}
	return c
}

// knownTool returns an error if the words are not the name of exactly one tool.
func knownTool(h *host.Host, words []string) error {
	var names []string
	for _, t := range h.Tools() {
		names = append(names, t.Name)
	}
	if len(words) == 1 && slices.Contains(names, words[0]) {
		return nil
	}
	name := words[0]
	if c := h.Explain(host.Request{Command: "help " + name}); len(words) == 1 && c.Error != nil &&
		c.Error.Kind == tool.PermissionDenied { // the configuration does not use the tool
		return c.Error
	}
	return fmt.Errorf("there is no command and no tool %q.%s See toolhost --help and toolhost tools", name, suggest.DidYouMean(name, names))
}
