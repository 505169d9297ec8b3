package fleetcmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/fleet"
	"toolhost.dev/host/mcp"
)

// NodeFlags contains the flags of "toolhost serve" for a node of a fleet.
type NodeFlags struct {
	on           bool
	join         string
	tokenFile    string
	node, listen string
	outward      bool
	fleet        *fleet.Fleet // nil before Start is called, and always nil without --fleet
}

// Sessions returns the store for sessions of MCP clients. It returns nil if the host is not a node of a fleet.
func (f *NodeFlags) Sessions() mcp.SessionStore {
	if f.fleet == nil {
		return nil
	}
	return f.fleet
}

// Add adds the flags to a command.
func (f *NodeFlags) Add(c *cobra.Command) {
	c.Flags().BoolVar(&f.on, "fleet", false, "serve as a node of a fleet; with \"join ADDRESS\" at the end, join the fleet of the node at this address")
	c.Flags().StringVar(&f.tokenFile, "fleet-token-file", "", "`file` with a join token, which toolhost fleet token makes")
	c.Flags().StringVar(&f.node, "fleet-node", "", "`name` of this node (default: from the configuration, else the name of the machine)")
	c.Flags().StringVar(&f.listen, "fleet-listen", "", "`address` for other nodes (default: from the configuration, else :7443)")
	c.Flags().BoolVar(&f.outward, "fleet-outward", false, "only open connections, because the other nodes cannot reach this one")
}

// TokenFile returns the file with a join token, or "".
func (f *NodeFlags) TokenFile() string { return f.tokenFile }

// On reports whether the flag --fleet is set.
func (f *NodeFlags) On() bool { return f.on }

// Arguments checks the arguments of "toolhost serve".
func (f *NodeFlags) Arguments(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !f.on:
		return fmt.Errorf("unknown argument %q. To join a fleet: toolhost serve --fleet join ADDRESS --fleet-token-file FILE", args[0])
	case args[0] != "join" || len(args) != 2:
		return fmt.Errorf("after --fleet, write join and the address of a node, such as: toolhost serve --fleet join east1:7443 --fleet-token-file FILE")
	}
	f.join = args[1]
	return nil
}

// tellBegan prints the command with which another machine joins the new fleet.
func tellBegan(w io.Writer, command, token string) {
	fmt.Fprintf(w, "toolhost: a new fleet. To add a machine, run there: %s\ntoolhost: with this token in FILE, once and within 15 minutes: %s\n", command, token)
}

// Start makes the host a node of a fleet if the flag --fleet is set. The caller must call leave before it closes the
// host. It may call leave more than once.
func (f *NodeFlags) Start(ctx context.Context, s *globals.Settings, h *host.Host) (leave func(), err error) {
	if !f.on {
		return func() {}, nil
	}
	opts := fleet.Options{Join: f.join, Node: f.node, Listen: f.listen, Outward: f.outward, Log: s.Log(slog.LevelInfo),
		Began: func(command, token string) { tellBegan(s.Err, command, token) }}
	if f.tokenFile != "" {
		b, err := os.ReadFile(s.Path(f.tokenFile))
		if err != nil {
			return nil, fmt.Errorf("--fleet-token-file: %w", err)
		}
		opts.Token = strings.TrimSpace(string(b))
	}
	n, err := fleet.Start(ctx, h, opts)
	if err != nil {
		return nil, fmt.Errorf("the fleet: %w", err)
	}
	f.fleet = n
	if at := n.Address(); at != "" {
		fmt.Fprintf(s.Err, "toolhost: node %s of the fleet, at %s\n", n.Node(), at)
	} else {
		fmt.Fprintf(s.Err, "toolhost: node %s of the fleet, which only opens connections\n", n.Node())
	}
	return func() {
		if err := n.Close(); err != nil {
			fmt.Fprintln(s.Err, "toolhost: the fleet:", screen.Clean(err.Error()))
		}
	}, nil
}

func newRevoke(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NODE", Short: "Revoke the certificates of a node", Args: cobra.ExactArgs(1),
		Long: `Revoke the certificates of a node whose key somebody else could have, or whose machine is lost. The other nodes
and the coordinators end its connections and accept no new ones. Others take its shared sessions when its
lease has ended. Run the command on the first node of the fleet, which has the key that signs certificates.

The node can join again as a new node with a new token.`,
		RunE: func(c *cobra.Command, args []string) error {
			out, err := do[fleet.Revoked](c.Context(), s, fleet.OpRevoke, fleet.Arguments{Node: args[0]})
			if err != nil {
				return err
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, out)
			}
			w := screen.New(s.Out)
			if len(out.Serials) == 0 {
				fmt.Fprintf(w, "node %s was revoked before; the list was sent again\n", screen.Printable(args[0]))
			} else {
				fmt.Fprintf(w, "node %s is revoked: %s\n", screen.Printable(args[0]),
					screen.Count(len(out.Serials), "certificate"))
			}
			fmt.Fprintf(w, "refused by: %s\n", screen.Printable(strings.Join(out.Told, ", ")))
			for _, name := range slices.Sorted(maps.Keys(out.Missing)) {
				fmt.Fprintf(w, "not notified yet: %s: %s. The node receives the list when it reaches the coordinators.\n", screen.Printable(name), screen.Printable(out.Missing[name]))
			}
			if out.External {
				fmt.Fprintln(w, "Revoke its user in the external NATS cluster, too.")
			}
			return nil
		},
	}
}
