package configcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin/agents"
	"toolhost.dev/host/agent"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/review"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newConfigImport(s *globals.Settings) *cobra.Command {
	var o review.Options
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Add the MCP servers of an agent's settings",
		Long: `Add the MCP servers in the settings of an agent to the configuration, as field blocks. FILE is
a settings file such as .mcp.json, ~/.claude.json, .cursor/mcp.json, .vscode/mcp.json,
opencode.json or the config.toml of Codex.
The blocks are shown as a diff before they are appended: to the configuration that applies, or to a
new one of the user. Secrets are not copied. Each secret is replaced by a call of env, so that the
value comes from the environment of toolhost. Servers whose name is already used are left out, and so
is toolhost. Settings without a counterpart are listed with their line and with a replacement.
The servers run confined: without a network, and with access only to the roots. Only servers that
download themselves get the network.`,
		Example: `  toolhost config import .mcp.json
  toolhost config import ~/.claude.json --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			im, err := agents.ImportServers(s.Options(), s.Path(args[0]), s.Getenv)
			if err != nil {
				return err
			}
			for _, n := range im.Notes {
				fmt.Fprintln(s.Out, "note:", screen.Printable(n))
			}
			if im.Change == nil {
				fmt.Fprintln(s.Out, "There is nothing to add.")
				return nil
			}
			written, err := review.Apply(s.Stdio, []*agent.Change{im.Change}, o, im.Change.Write)
			if err != nil || !written {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "Added to %s. To check it: toolhost config validate --launch --config %[1]s\n", screen.Printable(im.Change.Path))
			return err
		},
	}
	o.AddTo(c)
	return c
}
