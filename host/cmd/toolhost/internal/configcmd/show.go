package configcmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

func newConfigShow(s *cli.Settings) *cobra.Command {
	var effective bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the configuration with its expressions evaluated, and where each value comes from",
		Long: `Show the configuration as it is loaded: all its files, expressions evaluated, paths absolute, and
where each value comes from as a comment. It is a configuration itself and means the same, but that
secrets are masked: values of sensitive variables, and what is one by its name or its form.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tree, err := admin.Show(s.Options(), effective)
			if err != nil {
				return err
			}
			if s.JSON {
				return cli.PrintJSON(os.Stdout, tree)
			}
			_, err = fmt.Print(tree.HCL())
			return err
		},
	}
	c.Flags().BoolVar(&effective, "effective", false, "with defaults filled in")
	return c
}
