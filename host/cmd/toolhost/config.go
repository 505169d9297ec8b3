package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
)

func newConfig(s *settings) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Work with the configuration"}
	c.AddCommand(newConfigValidate(s), newConfigFormat(s), newConfigShow(s), newConfigPlan(s), newReload(s, false))
	return c
}

func newConfigValidate(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration",
		Long: `Check the configuration: syntax, names, values, and that every plugin binary is there.
Everything wrong is shown at once, with file and line. Exit status 2 when anything is.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			summary, err := host.ValidateConfig(s.options())
			if s.json {
				out := map[string]any{"valid": err == nil, "config": summary.Source, "plugins": summary.Plugins, "error": nil}
				if err != nil {
					out["error"] = err.Error()
				}
				if err := printJSON(os.Stdout, out); err != nil {
					return err
				}
			} else if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			if err != nil {
				return exitError(exitUsage)
			}
			if !s.json {
				fmt.Printf("%s is valid: %d plugins.\n", summary.Source, summary.Plugins)
			}
			return nil
		},
	}
}
