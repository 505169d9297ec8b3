package fleetcmd

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/fleet"
)

func newLog(s *globals.Settings) *cobra.Command {
	var a fleet.Arguments
	var since time.Duration
	c := &cobra.Command{
		Use: "log", Short: "Show the merged audit logs of all nodes", Args: cobra.NoArgs,
		Long: `Show the audit logs of all nodes, merged by time. Each node stores the entries of the calls that it ran. A node
that does not answer is named at the end.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if since > 0 {
				a.Log.Since = time.Now().Add(-since)
			}
			a.Log.Session = s.Session
			out, err := do[fleet.Log](c.Context(), s, fleet.OpLog, a)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, out)
			}
			w := tabwriter.NewWriter(screen.New(s.Out), 0, 0, 2, ' ', 0)
			for _, e := range out.Entries {
				what := e.Tool
				if what == "" {
					what = "-"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.At.Local().Format("2006-01-02 15:04:05"),
					screen.Printable(e.Node), screen.Printable(e.Principal), screen.Printable(what),
					screen.Printable(e.Outcome), screen.Printable(string(e.Arguments)))
			}
			for node, why := range out.Missing {
				fmt.Fprintf(w, "missing: node %s: %s\n", screen.Printable(node), screen.Printable(why))
			}
			return w.Flush()
		},
	}
	c.Flags().DurationVar(&since, "since", 0, "only calls of the last `duration`, such as 90m")
	c.Flags().StringVar(&a.Log.Principal, "principal", "", "only calls of the principal of this `name`")
	c.Flags().StringVar(&a.Log.Tool, "tool", "", "only calls of the tool of this `name`")
	c.Flags().IntVar(&a.Log.Limit, "limit", 100, "maximum number of entries, the newest ones; 0 means all")
	return c
}
