package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// newRollout returns the command "toolhost plugin rollout".
func newRollout(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "rollout",
		Short: "Inspect and control gradual rollouts of plugin versions",
		Long: `A plugin whose block has rollout {} does not replace its binary at once in running hosts. The new
version first runs in shadow, then serves a growing share of the sessions, and is stopped if it fails
more often, is slower, returns different results or needs more memory than the old one.`,
	}
	c.AddCommand(newRolloutStatus(s))
	for action, short := range map[string]string{
		"promote": "Let the new version serve all calls now",
		"pause":   "Pause a rollout in its current step",
		"resume":  "Continue a paused rollout",
		"abort":   "Abort a rollout and keep the old version",
	} {
		c.AddCommand(&cobra.Command{
			Use: action + " PLUGIN", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return steer(c.Context(), s, action, args[0]) },
		})
	}
	return c
}

// steer carries out an action on the rollout of a plugin in all running hosts.
func steer(ctx context.Context, s *globals.Settings, action, plugin string) error {
	hosts, err := admin.Running(s.Options())
	if err != nil {
		return err
	}
	if len(hosts) == 0 {
		return errors.New("no host runs with this state directory, so nothing is rolled out")
	}
	done := 0
	for _, h := range hosts {
		if err := h.Rollout(ctx, plugin, action); err != nil {
			fmt.Fprintf(s.Err, "host %d: %s\n", h.PID, screen.Printable(err.Error()))
			continue
		}
		done++
		fmt.Fprintf(s.Out, "host %d: %s of %s\n", h.PID, action, screen.Printable(plugin))
	}
	if done == 0 {
		return process.ExitError(process.ExitFailure)
	}
	return nil
}

// rollouts contains the rollouts of one host.
type rollouts struct {
	PID      int                  `json:"pid"`
	Rollouts []host.RolloutStatus `json:"rollouts"`
}

func newRolloutStatus(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "status [PLUGIN]", Short: "Show the progress of a rollout", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := admin.Running(s.Options())
			if err != nil {
				return err
			}
			all := []rollouts{}
			for _, h := range hosts {
				st, err := h.Status(c.Context())
				if err != nil {
					return fmt.Errorf("host %d: %w", h.PID, err)
				}
				if len(args) > 0 {
					st.Rollouts = slices.DeleteFunc(st.Rollouts, func(r host.RolloutStatus) bool {
						return r.Plugin != args[0]
					})
				}
				all = append(all, rollouts{PID: h.PID, Rollouts: append([]host.RolloutStatus{}, st.Rollouts...)})
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, all)
			}
			w := screen.New(s.Out)
			for _, h := range all {
				fmt.Fprintf(w, "HOST %d\n", h.PID)
				if len(h.Rollouts) == 0 {
					fmt.Fprintln(w, "no rollouts")
				}
				for _, r := range h.Rollouts {
					if err := rolloutText(w, r); err != nil {
						return err
					}
				}
			}
			if len(all) == 0 {
				fmt.Fprintln(w, "No host runs with this state directory, so nothing is rolled out.")
			}
			return nil
		},
	}
}

// rolloutText prints a rollout with the figures of both versions side by side.
func rolloutText(w io.Writer, r host.RolloutStatus) error {
	state := string(r.State)
	if r.State == "serving" {
		state = fmt.Sprintf("step %d of %d, %g %% of the sessions", r.Step, r.Steps, r.Share)
	}
	if r.Paused {
		state += ", paused"
	}
	if r.Why != "" {
		state += ": " + r.Why
	}
	fmt.Fprintf(w, "\nplugin %s  %s\n", screen.Printable(r.Plugin), screen.Printable(state))
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\tVERSION\tCALLS\tFAILED\tP50\tP95\tMEMORY")
	for _, v := range []struct {
		name string
		host.RolloutFigures
	}{{"old", r.Old}, {"new", r.New}} {
		f := v.RolloutFigures
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%.1f ms\t%.1f ms\t%d MiB\n", v.name, screen.Printable(f.Version.Version), f.Calls, f.Failed, f.P50, f.P95, f.Memory>>20)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "compared %d calls, %d differ\n", r.Compared, r.Differs)
	for _, c := range r.Cases {
		fmt.Fprintf(w, "  %s %s %s\n", c.At.Local().Format(time.TimeOnly), screen.Printable(c.Tool),
			screen.Printable(c.Arguments))
		for _, d := range c.Differences {
			fmt.Fprintf(w, "    %s: old %s, new %s\n", screen.Printable(d.Part), screen.Printable(d.Want),
				screen.Printable(d.Got))
		}
	}
	for _, e := range r.History {
		fmt.Fprintf(w, "  %s %s\n", e.At.Local().Format(time.TimeOnly), screen.Printable(e.Text))
	}
	return nil
}
