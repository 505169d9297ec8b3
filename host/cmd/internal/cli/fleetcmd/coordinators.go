package fleetcmd

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/fleet"
)

// newCoordinators returns the command "toolhost fleet coordinators".
func newCoordinators(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use: "coordinators", Short: "Manage the coordinators of the fleet", Args: cobra.NoArgs,
		Long: `Show which nodes have the coordinators of the fleet, and add, remove or replace some while the fleet runs. A fleet has
1, 3 or 5 of them. Calls go on meanwhile, and no record is lost.

A change goes through several steps. If its node ends in the middle, the status of the fleet shows it.
Complete it with "resume", or give it up with "abort", on any node.`,
		Example: `  toolhost fleet coordinators add east2 east3
  toolhost fleet coordinators remove east4 east5
  toolhost fleet coordinators replace east2 east4`,
		RunE: func(c *cobra.Command, _ []string) error { return changeCoordinators(c, s, "", nil) },
	}
	c.AddCommand(
		&cobra.Command{
			Use: "add NODE…", Short: "Start coordinators on nodes", Args: cobra.MinimumNArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				return changeCoordinators(c, s, fleet.ChangeAdd, args)
			},
		},
		&cobra.Command{
			Use: "remove NODE…", Short: "Stop coordinators on nodes", Args: cobra.MinimumNArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				return changeCoordinators(c, s, fleet.ChangeRemove, args)
			},
		},
		&cobra.Command{
			Use: "replace OLD NEW", Short: "Move a coordinator to another node", Args: cobra.ExactArgs(2),
			Long: `Start a coordinator on the node NEW, and give it the copies of the coordinator on the node OLD. OLD need not run. Most
of the coordinators must be current. If OLD comes back, its coordinator stops.`,
			RunE: func(c *cobra.Command, args []string) error {
				return changeCoordinators(c, s, fleet.ChangeReplace, args)
			},
		},
		&cobra.Command{
			Use: "resume", Short: "Complete an interrupted change", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return changeCoordinators(c, s, fleet.ChangeResume, nil) },
		},
		&cobra.Command{
			Use: "abort", Short: "Abandon an interrupted change", Args: cobra.NoArgs,
			Long: `Abandon an interrupted change: what was added is removed again. If the new coordinators of a fleet that
had a single one do not answer, run this on the node of that one.`,
			RunE: func(c *cobra.Command, _ []string) error { return changeCoordinators(c, s, fleet.ChangeAbort, nil) },
		},
	)
	return c
}

// changeCoordinators changes the coordinators, and prints the coordinators after the change.
func changeCoordinators(c *cobra.Command, s *globals.Settings, change string, nodes []string) error {
	out, err := do[fleet.Coordinators](c.Context(), s, fleet.OpCoordinators, fleet.Arguments{
		Change: change, Nodes: nodes,
	})
	if err != nil {
		return err
	}
	if s.JSON {
		return screen.PrintJSON(s.Out, out)
	}
	w := tabwriter.NewWriter(screen.New(s.Out), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tADDRESS")
	for _, m := range out.Members {
		fmt.Fprintf(w, "%s\t%s\n", screen.Printable(m.Node), screen.Printable(m.Address))
	}
	if len(out.Next) > 0 {
		var names []string
		for _, m := range out.Next {
			names = append(names, m.Node)
		}
		fmt.Fprintf(w, "a change is under way, in phase %s; afterwards: %s. Complete it: toolhost fleet coordinators resume. Give it up: toolhost fleet coordinators abort\n", out.Phase, screen.Printable(strings.Join(names, ", ")))
	}
	return w.Flush()
}
