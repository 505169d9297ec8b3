package plugincmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/develop"
)

// newPluginDocs returns the command "toolhost plugin docs".
func newPluginDocs(s *globals.Settings) *cobra.Command {
	var env []string
	c := &cobra.Command{
		Use:   "docs BINARY|DIR",
		Short: "Print the documentation of a plugin in Markdown",
		Long: `Start a plugin, ask it for its tools, its configuration and its needs, and print them as
Markdown, with the block for an operator's configuration. DIR contains a toolhost-plugin.json.
The plugin runs without a sandbox. With --json, the description itself is printed.`,
		Example: `  toolhost plugin docs ./greeter > greeter/TOOLS.md`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			binary := s.Path(args[0])
			switch st, err := os.Stat(binary); {
			case errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("%s does not exist; name the plugin's program or the directory of its sources", binary)
			case err == nil && st.IsDir():
				src, err := develop.Open(binary, s.Err)
				if err != nil {
					return err
				}
				binary = src.Binary()
			}
			values, err := variables(env)
			if err != nil {
				return err
			}
			d, err := develop.Describe(c.Context(), binary, args[1:], values)
			if err != nil {
				return fmt.Errorf("%s cannot be described: %w", binary, err)
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, d)
			}
			_, err = fmt.Fprint(screen.New(s.Out), develop.Docs(d))
			return err
		},
	}
	c.Flags().StringArrayVar(&env, "env", nil, "`NAME=VALUE` for the plugin, like env in its configuration")
	return c
}

// variables parses NAME=VALUE arguments.
func variables(list []string) (map[string]string, error) {
	out := make(map[string]string, len(list))
	for _, e := range list {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--env %q: give NAME=VALUE", e)
		}
		out[name] = value
	}
	return out, nil
}
