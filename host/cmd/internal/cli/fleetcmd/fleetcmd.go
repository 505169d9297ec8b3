// Package fleetcmd implements the command "toolhost fleet". Operators use its subcommands to inspect and manage a
// fleet.
package fleetcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/fleet"
)

// New returns the command "toolhost fleet".
func New(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{
		Use:   "fleet",
		Short: "Inspect and manage a fleet of hosts",
		Long: `Inspect and manage a fleet of hosts that serve the same sessions. These commands use the node
that runs on this machine with the same state directory. "toolhost serve --fleet" starts a node.`,
		Example: `  toolhost fleet status
  toolhost fleet sessions --node east2
  toolhost fleet drain east2 --wait 10m`,
	}
	c.AddCommand(newStatus(s), newSessions(s), newMove(s), newDrain(s), newUndrain(s), newToken(s), newTakeover(s),
		newForget(s), newRevoke(s), newSession(s), newLog(s), newConfig(s), newRollout(s), newUpgrade(s),
		newCoordinators(s))
	return c
}

// do carries out an operation on the node of this machine, and decodes its result.
func do[T any](ctx context.Context, s *globals.Settings, operation string, a fleet.Arguments) (*T, error) {
	hosts, err := admin.Running(s.Options())
	if err != nil {
		return nil, err
	}
	err = errors.New("no node of a fleet runs here with this state directory. Start one with toolhost serve --fleet, or name its state directory: --state DIR")
	for _, h := range hosts {
		var b json.RawMessage
		if b, err = h.Fleet(ctx, operation, a); err == nil {
			out := new(T)
			return out, json.Unmarshal(b, out)
		}
	}
	return nil, err
}

func newStatus(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the coordinators and nodes", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			st, err := do[fleet.Status](c.Context(), s, fleet.OpStatus, fleet.Arguments{})
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, st)
			}
			return statusText(s.Out, st)
		},
	}
}

func statusText(to io.Writer, st *fleet.Status) error {
	w := tabwriter.NewWriter(screen.New(to), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tLEASE\tVERSION\tCONFIG\tSESSIONS\tCALLS\tWORKSPACES")
	for _, n := range st.Nodes {
		lease := "-"
		if n.Left > 0 {
			lease = fmt.Sprintf("%.1fs", n.Left)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.8s\t%d\t%d\t%s\n", screen.Printable(n.Node), screen.Printable(n.State), lease,
			screen.Printable(n.Version), screen.Printable(n.Config), n.Sessions, n.Calls,
			screen.Printable(strings.Join(n.Workspaces, " ")))
	}
	leader := ""
	if st.Leader != "" {
		leader = ", leader " + screen.Printable(st.Leader)
	}
	fmt.Fprintf(w, "fleet %s: %s, %d of %s current%s\n", screen.Printable(st.Fleet),
		screen.Count(st.Sessions, "session"), st.Current, screen.Count(st.Coordinators, "coordinator"), leader)
	if len(st.Trial) > 0 {
		fmt.Fprintf(w, "a configuration is on trial at %s; see toolhost fleet rollout\n", screen.Printable(strings.Join(st.Trial, ", ")))
	}
	for _, p := range st.Problems {
		fmt.Fprintf(w, "problem: %s\n", screen.Printable(p))
	}
	return w.Flush()
}

func newSessions(s *globals.Settings) *cobra.Command {
	var a fleet.Arguments
	c := &cobra.Command{
		Use: "sessions", Short: "List the sessions and their nodes", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := do[[]fleet.SessionStatus](c.Context(), s, fleet.OpSessions, a)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, all)
			}
			w := tabwriter.NewWriter(screen.New(s.Out), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tPRINCIPAL\tWORKSPACE\tNODE\tEPOCH\tKEY")
			for _, e := range *all {
				name := e.Session
				if name == "" {
					name = "(default)"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", screen.Printable(name), screen.Printable(e.Principal),
					screen.Printable(e.Workspace), screen.Printable(e.Node), e.Epoch, e.Key)
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&a.Node, "node", "", "only sessions of the node of this `name`")
	c.Flags().IntVar(&a.Limit, "limit", 1000, "maximum number of sessions")
	return c
}

func newMove(s *globals.Settings) *cobra.Command {
	var a fleet.Arguments
	c := &cobra.Command{
		Use: "move SESSION", Short: "Move a session to another node", Args: cobra.ExactArgs(1),
		Long: "Move a session to another node, between two of its calls.",
		RunE: func(c *cobra.Command, args []string) error {
			a.Session = args[0]
			return act(c, s, fleet.OpMove, a, map[string]string{"moved": a.Session}, "session %s moved", a.Session)
		},
	}
	c.Flags().StringVar(&a.To, "to", "", "`node` that gets it (default: the fleet chooses)")
	c.Flags().DurationVar(&a.Wait, "wait", time.Minute, "how long to wait for its calls and jobs")
	return c
}

// act carries out an operation. It prints the format as text, or v with the flag --json.
func act(c *cobra.Command, s *globals.Settings, operation string, a fleet.Arguments, v any, format string,
	args ...any) error {
	if _, err := do[struct{}](c.Context(), s, operation, a); err != nil {
		return err
	}
	return say(s, v, format, args...)
}

// say prints the outcome of a command as text. With the flag --json, it prints v instead.
func say(s *globals.Settings, v any, format string, a ...any) error {
	if s.JSON {
		return screen.PrintJSON(s.Out, v)
	}
	_, err := fmt.Fprintln(s.Out, screen.Printable(fmt.Sprintf(format, a...)))
	return err
}

func newDrain(s *globals.Settings) *cobra.Command {
	var a fleet.Arguments
	c := &cobra.Command{
		Use: "drain [NODE]", Short: "Move all sessions off a node", Args: cobra.MaximumNArgs(1),
		Long: `Move all sessions of a node to other nodes, each between two of its calls, and give the node no new
sessions. Drain a node before you stop or upgrade it, so that no call is refused. Sessions that name the node,
and those of workspaces that only this node has, cannot move; they stop the drain unless --abandon-local is set.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				a.Node = args[0]
			}
			out, err := do[fleet.Drained](c.Context(), s, fleet.OpDrain, a)
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, out)
			}
			fmt.Fprintf(s.Out, "%s moved\n", screen.Count(out.Moved, "session"))
			for _, e := range out.Ended {
				fmt.Fprintf(s.Out, "ended: %s\n", screen.Printable(e))
			}
			for _, l := range out.Local {
				fmt.Fprintf(s.Out, "stays: session %s\n", screen.Printable(l))
			}
			return nil
		},
	}
	c.Flags().DurationVar(&a.Wait, "wait", 10*time.Minute, "how long to wait for calls and jobs before jobs are ended")
	c.Flags().BoolVar(&a.AbandonLocal, "abandon-local", false, "succeed even if sessions remain that cannot move")
	return c
}

func newUndrain(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "undrain [NODE]", Short: "Return a drained node to service", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return act(c, s, fleet.OpUndrain, fleet.Arguments{Node: strings.Join(args, "")}, struct{}{},
				"the node takes sessions again")
		},
	}
}

func newToken(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "token", Short: "Create a token for one machine to join", Args: cobra.NoArgs,
		Long: "Create a token with which one machine can join the fleet. It expires after 15 minutes.",
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := do[map[string]string](c.Context(), s, fleet.OpToken, fleet.Arguments{})
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, out)
			}
			fmt.Fprintf(s.Err, "Put the token into a file on the new machine, and run there: %s\n", screen.Printable((*out)["command"]))
			_, err = fmt.Fprintln(s.Out, screen.Printable((*out)["token"]))
			return err
		},
	}
}

func newTakeover(s *globals.Settings) *cobra.Command {
	var fenced bool
	c := &cobra.Command{
		Use: "takeover NODE", Short: "Release the sessions of a stopped node", Args: cobra.ExactArgs(1),
		Long: `With fleet { takeover = "manual" }, let other nodes take the shared sessions of a node that does not answer.
First make sure that the node cannot change shared files any more: switch the machine off, or cut it off
from the storage. Two nodes that change the same files at once can destroy them. If the configuration has a fence
command, it runs, but it need not succeed: your word counts.`,
		RunE: func(c *cobra.Command, args []string) error {
			if !fenced {
				return errors.New("first make sure that the node cannot change shared files any more, then repeat the command with --i-have-fenced-it")
			}
			return act(c, s, fleet.OpTakeover, fleet.Arguments{Node: args[0]}, struct{}{},
				"other nodes take the sessions of %s", args[0])
		},
	}
	c.Flags().BoolVar(&fenced, "i-have-fenced-it", false, "the node cannot change shared files any more")
	return c
}

func newForget(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "forget NODE", Short: "Remove a stopped node from the list", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return act(c, s, fleet.OpForget, fleet.Arguments{Node: args[0]}, struct{}{},
				"node %s is forgotten", args[0])
		},
	}
}

func newSession(s *globals.Settings) *cobra.Command {
	c := &cobra.Command{Use: "session", Short: "Repair or remove a session"}
	c.AddCommand(newRemoveSession(s))
	c.AddCommand(&cobra.Command{
		Use: "repair SESSION", Short: "Release a session with a damaged journal", Args: cobra.ExactArgs(1),
		Long: `Let a session go on whose journal lost records, for example because all coordinators lost power, or has records that
cannot be read. The files stay unchanged. The session keeps what can still be read. It loses what it knew about other
calls, so a repetition of such a call with the same id runs again, and the state that these calls changed, such as the
directory of the shell. A session that is in use, or whose journal is whole, is refused.`,
		RunE: func(c *cobra.Command, args []string) error {
			out, err := do[fleet.Repaired](c.Context(), s, fleet.OpRepair, fleet.Arguments{Session: args[0]})
			if err != nil {
				return err
			}
			last := "No record of an earlier call could be read"
			if !out.Since.IsZero() {
				last = "The last call that it knows is from " + out.Since.Local().Format(time.DateTime)
			}
			return say(s, out, "session %s can go on. %s. %d records could not be read and were removed. %s, and it knows %d calls. What later calls did to the state of the session is lost, and a repetition of another call runs again",
				args[0], out.Damage, out.Unreadable, last, out.Calls)
		},
	})
	return c
}

func newRemoveSession(s *globals.Settings) *cobra.Command {
	var a fleet.Arguments
	c := &cobra.Command{
		Use: "remove SESSION", Short: "End a session, and remove its records", Args: cobra.ExactArgs(1),
		Long: `End a session, and remove its records. The command waits until no call of the session runs. Files stay as they are.
A later call with the same name begins a new session.`,
		RunE: func(c *cobra.Command, args []string) error {
			a.Session = args[0]
			return act(c, s, fleet.OpRemove, a, map[string]string{"removed": a.Session},
				"session %s is removed", a.Session)
		},
	}
	c.Flags().DurationVar(&a.Wait, "wait", time.Minute, "how long to wait for its calls and jobs before jobs are ended")
	return c
}
