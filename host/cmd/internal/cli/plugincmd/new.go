package plugincmd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/scaffold"
)

func newPluginNew(s *globals.Settings) *cobra.Command {
	var opts scaffold.Options
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Create the sources of a new plugin",
		Long: `Create a directory with a working plugin that has one tool, its tests, a check against the
protocol, and the block for a configuration.`,
		Example: `  toolhost plugin new greeter
  toolhost plugin new greeter --lang python --dir ~/src/greeter`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Name = args[0]
			opts.Dir = s.Path(cmp.Or(opts.Dir, opts.Name))
			opts.SDK = s.Path(opts.SDK)
			made, err := scaffold.New(opts)
			if err != nil {
				return err
			}
			if s.JSON {
				slices.Sort(made.Files)
				return screen.PrintJSON(s.Out, map[string]any{"dir": made.Dir, "files": made.Files})
			}
			dir := made.Dir
			if wd, err := s.WorkDir(); err == nil {
				if rel, err := filepath.Rel(wd, dir); err == nil && filepath.IsLocal(rel) {
					dir = rel
				}
			}
			if made.Fetched != "" {
				fmt.Fprintf(s.Out, "The build downloads %s, which needs a network or a registry of yours. --sdk uses one on this machine.\n", made.Fetched)
			}
			fmt.Fprintf(s.Out, `The plugin %[1]s is in %[2]s. Next:
  make -C %[2]s test
  cat %[2]s/plugin.hcl >> toolhost.hcl
  toolhost config validate
  toolhost trust
  toolhost plugin dev %[2]s
%[2]s/README.md says more.
`, args[0], screen.Printable(dir))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&opts.Lang, "lang", "go", "`go|python|typescript`")
	f.StringVar(&opts.Dir, "dir", "", "`directory` for the sources (default: NAME)")
	f.StringVar(&opts.SDK, "sdk", "", "`directory` of the SDK's sources, for Go (default: beside the executable), or archive of the SDK's package, for TypeScript")
	return c
}
