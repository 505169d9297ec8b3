package configcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newConfigShow(s *globals.Settings) *cobra.Command {
	var effective bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the configuration with each value's source",
		Long: `Show the configuration as it is loaded: all its files, expressions evaluated, paths absolute, and
the source of each value as a comment. The output is itself a configuration with the same meaning, except
that secrets are masked: values of sensitive variables, and values that look like secrets by their names or
their form.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tree, err := admin.Show(s.Options(), effective)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, tree)
			}
			_, err = fmt.Fprint(s.Out, tree.HCL())
			return err
		},
	}
	c.Flags().BoolVar(&effective, "effective", false, "fill in the defaults")
	return c
}
