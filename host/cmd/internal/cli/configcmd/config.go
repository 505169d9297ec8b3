// Package configcmd implements the subcommands of "toolhost config". See [New].
package configcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/plugincmd"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// New returns the command "toolhost config".
func New(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Manage the configuration"}
	c.AddCommand(newConfigValidate(s), newConfigFormat(s), newConfigShow(s), newConfigPlan(s), newConfigImport(s),
		newConfigHistory(s), newConfigRollback(s), plugincmd.NewReload(s, false))
	return c
}

// validation is the JSON output of "toolhost config validate".
type validation struct {
	Valid   bool   `json:"valid"`
	Config  string `json:"config"`
	Plugins int    `json:"plugins"`
	// Untrusted is the reason why the file has no effect yet. It is empty if the file is trusted.
	Untrusted string `json:"untrusted,omitempty"`
	// Unchecked is the reason why the names of tools and fields were not checked. It is empty if they were.
	Unchecked string `json:"unchecked,omitempty"`
	// Error contains all problems as one text. Problems contains each problem separately.
	Error    *string         `json:"error"`
	Problems []admin.Problem `json:"problems"`
	// Launched lists the problems of the plugins that were started for the validation. Nil means that no plugin was
	// started.
	Launched []string `json:"launch_problems"`
}

func newConfigValidate(s *globals.Settings) *cobra.Command {
	var launch bool
	c := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration",
		Long: `Check the configuration: syntax, names, values, and whether every plugin binary and every program of a hook
exists. All problems are shown at once, with file and line. Names of tools are checked if all plugins are
known from an earlier start; otherwise a warning is printed. The config and mcp blocks of a plugin are
checked if its binary is known. With --launch, the plugins are also started. Problems that they report about
their configuration blocks are shown with the lines of these blocks. Programs of hooks get the event "trial".
Exit status 0: valid. 2: not valid. 1: valid, but with --launch a part of it does not work.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			summary, err := admin.Validate(s.Options())
			v := validation{Valid: err == nil, Config: summary.Source, Plugins: summary.Plugins,
				Unchecked: summary.Unchecked, Problems: append(admin.Problems(err), summary.Warnings...)}
			if err != nil {
				text := err.Error()
				v.Error = &text
			} else if v.Untrusted = summary.Untrusted; launch && v.Untrusted != "" {
				return fmt.Errorf("no plugin was started, because %s", v.Untrusted)
			} else if launch {
				problems, err := admin.Launch(c.Context(), s.Inspection())
				if err != nil {
					return err
				}
				v.Launched = append([]string{}, problems...)
			}
			if s.JSON {
				return errors.Join(screen.PrintJSON(s.Out, v), v.status())
			}
			return errors.Join(v.text(s.Stdio), v.status())
		},
	}
	c.Flags().BoolVar(&launch, "launch", false, "start the plugins, and show the problems that they report about their configuration")
	return c
}

func (v *validation) status() error {
	switch {
	case !v.Valid:
		return process.ExitError(process.ExitUsage)
	case len(v.Launched) > 0:
		return process.ExitError(process.ExitFailure)
	}
	return nil
}

func (v *validation) text(s process.Stdio) error {
	for _, p := range v.Problems {
		if p.Severity == "warning" {
			fmt.Fprintf(s.Err, "%s:%d:%d: warning: %s. %s\n", screen.Printable(p.File), p.Line, p.Column,
				screen.Clean(p.Summary), screen.Clean(p.Detail))
		}
	}
	if v.Error != nil {
		_, err := fmt.Fprintln(s.Err, screen.Clean(*v.Error))
		return err
	}
	for _, p := range v.Launched {
		fmt.Fprintln(s.Err, screen.Clean(p))
	}
	if len(v.Launched) > 0 {
		return nil
	}
	if v.Untrusted != "" {
		fmt.Fprintln(s.Err, "warning:", screen.Clean(v.Untrusted))
	}
	if v.Unchecked != "" && v.Launched == nil {
		fmt.Fprintln(s.Err, "warning: the names of tools and fields were not checked:", screen.Clean(v.Unchecked))
	}
	_, err := fmt.Fprintf(s.Out, "%s is valid: %s.\n", screen.Printable(v.Config), screen.Count(v.Plugins, "plugin"))
	return err
}
