package fleetcmd

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/fleet"
)

func newConfig(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Change the configuration of all nodes",
		Long: `Change the configuration of all nodes. Some of them try a new configuration before the others get it. Each
node keeps its own fleet block and its own state directory.`,
		Example: `  toolhost fleet config push new.hcl --canary east2
  toolhost fleet rollout
  toolhost fleet config promote`,
	}
	c.AddCommand(newAdopt(s), newPush(s), newPromote(s), newAbort(s), newPull(s))
	return c
}

func newAdopt(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "adopt", Short: "Use this node's configuration for the fleet", Args: cobra.NoArgs,
		Long: `Make the configuration of this node the configuration of the fleet. Nodes with a different configuration take
no new sessions until they have this one, too.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return act(c, s, fleet.OpAdopt, fleet.Arguments{}, struct{}{}, "the configuration of this node is now the configuration of the fleet")
		},
	}
}

func newPush(s *globals.Settings) *cobra.Command {
	var a fleet.Arguments
	c := &cobra.Command{
		Use: "push FILE", Short: "Try a configuration on some nodes", Args: cobra.ExactArgs(1),
		Long: `Let some nodes try the configuration in a file, with the lock file next to it. They apply it at once, and
serve their sessions with it. If one of them refuses it, all of them go back. Plugins from registries that the
lock file fixes are copied from this machine. End the trial with "promote" or "abort".`,
		Example: `  toolhost fleet config push new.hcl --canary east2`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if a.Files, err = host.ReadSharedFiles(s.Path(args[0])); err != nil {
				return err
			}
			t, err := do[fleet.Trial](c.Context(), s, fleet.OpPush, a)
			if err != nil {
				return err
			}
			return showTrial(s, t)
		},
	}
	c.Flags().StringSliceVar(&a.Canaries, "canary", nil, "`nodes` that try the configuration, separated by commas")
	c.Flags().BoolVar(&a.Approve, "approve-privileges", false, "accept additional privileges")
	return c
}

func newPromote(s *globals.Settings) *cobra.Command {
	var a fleet.Arguments
	c := &cobra.Command{
		Use: "promote", Short: "Apply the trial configuration to all nodes", Args: cobra.NoArgs,
		Long: `Apply the trial configuration to all nodes, one after another. The command stops at the first node that
refuses it. Nothing is done if a node of the trial does not serve, or if far more calls fail there than on the
other nodes.`,
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := do[fleet.Promoted](c.Context(), s, fleet.OpPromote, a)
			if err != nil {
				return err
			}
			text := "all nodes have the new configuration"
			if len(out.Missed) > 0 {
				text = "all running nodes have the new configuration. Once they run, on " + screen.Printable(strings.Join(out.Missed, ", ")) + ": toolhost fleet config pull"
			}
			return say(s, out, "%s", text)
		},
	}
	c.Flags().BoolVar(&a.Force, "force", false, "promote even if the nodes of the trial do worse than the others")
	return c
}

func newAbort(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "abort", Short: "End the trial of a configuration", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return act(c, s, fleet.OpAbort, fleet.Arguments{}, struct{}{}, "all nodes have the configuration of the fleet")
		},
	}
}

func newPull(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "pull [NODE]", Short: "Give a node the configuration of the fleet", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return act(c, s, fleet.OpPull, fleet.Arguments{Node: strings.Join(args, "")}, struct{}{}, "the node has the configuration of the fleet")
		},
	}
}

func newRollout(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "rollout", Short: "Compare the trial nodes with the others", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := do[*fleet.Trial](c.Context(), s, fleet.OpRollout, fleet.Arguments{})
			if err != nil {
				return err
			}
			if *t == nil {
				return say(s, nil, "no configuration is on trial; begin with toolhost fleet config push FILE --canary NODE")
			}
			return showTrial(s, *t)
		},
	}
}

func showTrial(s *globals.Settings, t *fleet.Trial) error {
	if s.JSON {
		return screen.PrintJSON(s.Out, t)
	}
	w := tabwriter.NewWriter(screen.New(s.Out), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tCONFIG\tCALLS\tFAILURES")
	for _, n := range t.Nodes {
		config, calls, failures := "present", fmt.Sprint(n.Calls), fmt.Sprint(n.Failures)
		if n.New {
			config = fmt.Sprintf("%.8s", t.Digest)
		}
		if n.Problem != "" {
			calls, failures = "-", screen.Printable(n.Problem)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", screen.Printable(n.Node), screen.Printable(n.State),
			screen.Printable(config), calls, failures)
	}
	fmt.Fprintf(w, "on trial since %s, from %s. End the trial: toolhost fleet config promote, or abort\n", t.At.Local().Format("15:04:05"), screen.Printable(t.By))
	return w.Flush()
}
