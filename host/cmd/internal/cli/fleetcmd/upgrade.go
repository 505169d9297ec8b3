package fleetcmd

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/fleet"
)

// upgrade restarts the nodes of a fleet one after another.
type upgrade struct {
	settings    *globals.Settings
	command     string
	nodes       []string
	wait, ready time.Duration
	abandon     bool
}

func newUpgrade(s *globals.Settings) *cobra.Command {
	u := &upgrade{settings: s}
	c := &cobra.Command{
		Use: "upgrade --command COMMAND", Short: "Restart the nodes one after another", Args: cobra.NoArgs,
		Long: `Restart the nodes one after another, for example with a new version of toolhost. For each node, this command
moves its sessions to others, runs COMMAND with the shell, and waits until the node is back and ready. It stops
at the first node that fails. The node of this machine is the last one. Outward nodes are upgraded only if --node names
them.

COMMAND finds the name of the node in $TOOLHOST_NODE. It must restart the node, and can return before the node is back.`,
		Example: `  toolhost fleet upgrade --command 'ssh "$TOOLHOST_NODE" sudo systemctl restart toolhost'`,
		RunE:    func(c *cobra.Command, _ []string) error { return u.run(c.Context()) },
	}
	c.Flags().StringVar(&u.command, "command", "", "shell `command` that restarts the node $TOOLHOST_NODE")
	c.Flags().StringSliceVar(&u.nodes, "node", nil, "only these `nodes`, separated by commas")
	c.Flags().DurationVar(&u.wait, "wait", 10*time.Minute, "how long to wait for calls and jobs of a node before jobs are ended")
	c.Flags().DurationVar(&u.ready, "ready", 5*time.Minute, "how long to wait until a node is back")
	c.Flags().BoolVar(&u.abandon, "abandon-local", false, "also restart nodes with sessions that cannot move")
	_ = c.MarkFlagRequired("command") // ignore the error: the flag exists
	return c
}

func (u *upgrade) run(ctx context.Context) error {
	st, err := do[fleet.Status](ctx, u.settings, fleet.OpStatus, fleet.Arguments{})
	if err != nil {
		return err
	}
	var all []fleet.NodeStatus
	for _, n := range st.Nodes {
		switch {
		case len(u.nodes) > 0 && !slices.Contains(u.nodes, n.Node), len(u.nodes) == 0 && n.Left == 0:
		case len(u.nodes) == 0 && n.Address == "":
			u.progress("node %s: left out, because it only opens connections. To upgrade it, too, name it: --node", n.Node)
		case n.State != "ready":
			return fmt.Errorf("the node %s is %s, and an upgrade needs nodes that are ready. Repair it first, or name the other nodes: --node", n.Node, n.State)
		case n.Node == st.Node:
			all = append(all, n)
		default:
			all = slices.Insert(all, 0, n)
		}
	}
	for _, name := range u.nodes {
		if !slices.ContainsFunc(all, func(n fleet.NodeStatus) bool { return n.Node == name }) {
			return fmt.Errorf("the fleet has no node %q. See toolhost fleet status", name)
		}
	}
	done := []string{}
	for i := range all {
		if err := u.one(ctx, &all[i]); err != nil {
			return fmt.Errorf("node %s: %w. These nodes are upgraded: %q", all[i].Node, err, done)
		}
		done = append(done, all[i].Node)
	}
	return say(u.settings, map[string]any{"upgraded": done}, "all nodes are upgraded")
}

// one upgrades one node: it moves the sessions of the node to other nodes, restarts the node, and waits
// until the node is ready.
func (u *upgrade) one(ctx context.Context, n *fleet.NodeStatus) error {
	u.progress("node %s: moves its sessions", n.Node)
	drained, err := do[fleet.Drained](ctx, u.settings, fleet.OpDrain, fleet.Arguments{
		Node: n.Node, Wait: u.wait, AbandonLocal: u.abandon,
	})
	if err != nil {
		_, again := do[struct{}](ctx, u.settings, fleet.OpUndrain, fleet.Arguments{Node: n.Node})
		return errors.Join(err, again)
	}
	u.progress("node %s: %s moved; restarts", n.Node, screen.Count(drained.Moved, "session"))
	for _, e := range drained.Ended {
		u.progress("node %s: ended %s", n.Node, e)
	}
	c := exec.CommandContext(ctx, "/bin/sh", "-c", u.command) //nolint:gosec // the operator's command
	c.Env, c.Stdout, c.Stderr = append(u.settings.Environ(), "TOOLHOST_NODE="+n.Node), u.settings.Err, u.settings.Err
	c.Dir = u.settings.Dir
	if err := c.Run(); err != nil {
		return fmt.Errorf("the command failed: %w. If the node still runs, let it serve again: toolhost fleet undrain %s", err, n.Node)
	}
	return u.back(ctx, n)
}

// back waits until a node was restarted and is ready.
func (u *upgrade) back(ctx context.Context, n *fleet.NodeStatus) error {
	why := "it does not answer"
	for end := time.Now().Add(u.ready); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		st, err := do[fleet.Status](ctx, u.settings, fleet.OpStatus, fleet.Arguments{})
		if err != nil { // the node on this machine can be the one that restarts
			why = err.Error()
			continue
		}
		i := slices.IndexFunc(st.Nodes, func(s fleet.NodeStatus) bool { return s.Node == n.Node })
		switch {
		case i < 0 || st.Nodes[i].Incarnation == n.Incarnation:
			why = "the command did not restart it"
		case st.Nodes[i].State == "ready":
			u.progress("node %s: is back with version %s", n.Node, st.Nodes[i].Version)
			return nil
		default:
			why = "it is " + st.Nodes[i].State
		}
	}
	return fmt.Errorf("it was not ready within %v: %s. See toolhost fleet status", u.ready, why)
}

func (u *upgrade) progress(format string, a ...any) {
	fmt.Fprintln(u.settings.Err, screen.Clean(fmt.Sprintf(format, a...)))
}
