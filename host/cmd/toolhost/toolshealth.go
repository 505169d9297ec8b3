package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

// toolHealth is the health of a tool in JSON.
type toolHealth struct {
	Tool string `json:"tool"`
	tool.Health
}

// newToolsHealth returns the command "tools health".
func newToolsHealth(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "health [TOOL]...",
		Short: "Check the health of tools",
		Long: `Ask the plugins for the health of the named tools, or of all enabled tools. Plugins that
do not run are started. A tool is healthy, unhealthy, not_found, or error if its plugin does
not answer. The exit status is 1 if a tool is not healthy.`,
		Example: `  toolhost tools health
  toolhost tools health read jira:search`,
		RunE: func(c *cobra.Command, names []string) error {
			h, err := s.Open(c)
			if err != nil {
				return err
			}
			list, good := checkTools(c.Context(), h, names)
			if err := h.Close(); err != nil {
				return err
			}
			if s.JSON {
				err = cli.PrintJSON(os.Stdout, list)
			} else {
				err = healthText(cli.Screen(os.Stdout), list)
			}
			if err == nil && !good {
				return cli.ExitError(cli.ExitFailure)
			}
			return err
		},
	}
}

// checkTools checks the named tools, or all enabled tools if there are no names. good reports whether all are healthy.
func checkTools(ctx context.Context, h *host.Host, names []string) (list []toolHealth, good bool) {
	if len(names) == 0 {
		for _, t := range enabled(h.Tools()) {
			names = append(names, t.FullName)
		}
	}
	list, good = []toolHealth{}, true
	for _, name := range names {
		health := h.Health(ctx, name)
		good = good && health.Status == tool.Healthy
		list = append(list, toolHealth{name, health})
	}
	return list, good
}

func healthText(w io.Writer, list []toolHealth) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TOOL\tHEALTH\tDETAILS")
	for _, t := range list {
		details := t.Message
		if len(t.Details) > 0 {
			details += " " + string(t.Details)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", cli.Printable(t.Tool), t.Status, cli.Printable(details))
	}
	return out.Flush()
}
