package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/nodename"
)

// Fleet holds the settings of the fleet block.
type Fleet struct {
	// Name is the name of the fleet. Node is the name of this host in the fleet. An empty Node means the name of the
	// machine.
	Name, Node string
	// Coordinators contains the addresses of the coordinators. If it is empty, the fleet has a single coordinator on
	// its first node.
	Coordinators []string
	// NATS contains the URLs of an external NATS cluster. Credentials is the path of the credentials for the cluster.
	// If NATS is empty, the coordinators store the records of the fleet.
	NATS        []string
	Credentials string
	// CA, Certificate and Key are paths of PEM files for TLS with an external cluster. CA contains the authority that
	// signs the certificates of the cluster's servers. Empty means the authorities of the system. Certificate and Key
	// identify this node to the cluster. Empty means that this node has no certificate.
	CA, Certificate, Key string
	// Replicas is the number of copies that an external cluster keeps of each record.
	Replicas int
	// Listen is the address on which this node accepts connections of other nodes. Advertise is the address to which
	// other nodes connect. Empty means a default.
	Listen, Advertise string
	Labels            map[string]string
	// MaxSessions and MaxCalls are the capacity of this node, in sessions and in concurrent calls. Zero means no limit.
	MaxSessions, MaxCalls int
	Lease                 time.Duration
	// Manual means that other nodes never decide that a node has ended. An operator decides it.
	Manual bool
	// Fence is a command that cuts a failed node off from shared files.
	Fence      []string
	Workspaces []FleetWorkspace
}

// FleetWorkspace is a named workspace of a fleet.
type FleetWorkspace struct {
	Name, Path string
	// Shared is an identifier for files to which several nodes have access. Empty means that only this node has the
	// files.
	Shared string
	// Nodes selects the nodes that have the workspace: a node must have all these labels. A nil map selects all nodes.
	Nodes map[string]string
}

type fleetHCL struct {
	Name         hcl.Expression      `hcl:"name,optional"`
	Node         hcl.Expression      `hcl:"node,optional"`
	Coordinators hcl.Expression      `hcl:"coordinators,optional"`
	Listen       hcl.Expression      `hcl:"listen,optional"`
	Advertise    hcl.Expression      `hcl:"advertise,optional"`
	Labels       hcl.Expression      `hcl:"labels,optional"`
	Lease        hcl.Expression      `hcl:"lease,optional"`
	Takeover     hcl.Expression      `hcl:"takeover,optional"`
	Fence        hcl.Expression      `hcl:"fence,optional"`
	NATS         *natsHCL            `hcl:"nats,block"`
	Capacity     *capacityHCL        `hcl:"capacity,block"`
	Workspaces   []fleetWorkspaceHCL `hcl:"workspace,block"`
	At           hcl.Range           `hcl:",def_range"`
}

type natsHCL struct {
	URLs        hcl.Expression `hcl:"urls"`
	Credentials hcl.Expression `hcl:"credentials,optional"`
	CA          hcl.Expression `hcl:"ca,optional"`
	Certificate hcl.Expression `hcl:"certificate,optional"`
	Key         hcl.Expression `hcl:"key,optional"`
	Replicas    hcl.Expression `hcl:"replicas,optional"`
}

type capacityHCL struct {
	Sessions hcl.Expression `hcl:"sessions,optional"`
	Calls    hcl.Expression `hcl:"calls,optional"`
}

type fleetWorkspaceHCL struct {
	Name   string         `hcl:"name,label"`
	Path   string         `hcl:"path"`
	Shared hcl.Expression `hcl:"shared,optional"`
	Nodes  hcl.Expression `hcl:"nodes,optional"`
	At     hcl.Range      `hcl:",def_range"`
}

// MinLease is the shortest lease in a fleet with several coordinators. Their JetStream can need nine seconds to elect a
// leader, and a lease must not end during the election. A single coordinator needs no election, so minLeaseOfOne is
// shorter.
const (
	MinLease      = 12 * time.Second
	minLeaseOfOne = 2 * time.Second
)

// DefaultFleet returns the settings of an empty fleet block.
func DefaultFleet() *Fleet { return &Fleet{Name: "toolhost", Lease: 15 * time.Second, Replicas: 3} }

func (d *decoder) fleet(f *fleetHCL) {
	out := DefaultFleet()
	out.Name, out.Node = cmp.Or(d.optional(f.Name), out.Name), d.optional(f.Node)
	if out.Node != "" {
		if err := nodename.Check(out.Node); err != nil {
			d.fail(f.Node.Range(), "The node cannot have this name", "%s.", err)
		}
	}
	if given(f.Coordinators) {
		out.Coordinators = d.texts(f.Coordinators)
		if n := len(out.Coordinators); !slices.Contains([]int{1, 3, 5}, n) {
			d.fail(f.Coordinators.Range(), fmt.Sprintf("A fleet cannot have %d coordinators", n), "Name 1, 3 or 5 of them. An even number survives no more failures than the odd number below it.")
		}
		for _, a := range out.Coordinators {
			d.address(f.Coordinators, a)
		}
	}
	out.Listen, out.Advertise = d.optional(f.Listen), d.optional(f.Advertise)
	if out.Listen != "" {
		d.address(f.Listen, out.Listen)
	}
	if out.Advertise != "" {
		d.address(f.Advertise, out.Advertise)
	}
	if given(f.Labels) {
		d.add(gohcl.DecodeExpression(f.Labels, d.ctx, &out.Labels))
	}
	if given(f.Lease) {
		out.Lease = d.duration(f.Lease)
		least, why := MinLease, "the coordinators can need nine seconds to elect a leader, and the leases of all nodes would end meanwhile"
		if len(out.Coordinators) < 2 && f.NATS == nil {
			least, why = minLeaseOfOne, "a slow disk of the coordinator must not end the leases of all nodes"
		}
		if out.Lease < least {
			d.fail(f.Lease.Range(), fmt.Sprintf("A lease of %s is too short", out.Lease), "Write at least \"%s\": %s.", least, why)
		}
	}
	out.Manual = d.choice(f.Takeover, "automatic", "automatic", "manual") == "manual"
	if given(f.Fence) {
		if out.Fence = d.texts(f.Fence); len(out.Fence) == 0 {
			d.fail(f.Fence.Range(), "The command is empty", "Name a program and its arguments. It gets the name of the node as its last argument.")
		}
	}
	d.nats(f, out)
	if c := f.Capacity; c != nil {
		if given(c.Sessions) {
			out.MaxSessions = d.positive(c.Sessions, "The number of sessions", "Write a whole number of at least 1.")
		}
		if given(c.Calls) {
			out.MaxCalls = d.positive(c.Calls, "The number of calls", "Write a whole number of at least 1.")
		}
	}
	d.fleetWorkspaces(f, out)
	d.cfg.Fleet = out
	if d.cfg.Workspace.Mode != "direct" && len(out.Workspaces) > 0 {
		d.fail(f.At, fmt.Sprintf("Sessions of a fleet cannot work in branches, and workspace { mode = %q } asks for that", d.cfg.Workspace.Mode), "Branches stay on one node. Remove the mode, or the workspaces of the fleet.")
	}
}

func (d *decoder) nats(f *fleetHCL, out *Fleet) {
	n := f.NATS
	if n == nil {
		return
	}
	if given(f.Coordinators) {
		d.fail(f.At, "The fleet has coordinators and an external NATS cluster", "Keep one of them: coordinators, or the nats block.")
	}
	if out.NATS = d.texts(n.URLs); len(out.NATS) == 0 {
		d.fail(n.URLs.Range(), "No server is named", "Write URLs such as [\"tls://nats.example.org:4222\"].")
	}
	for to, e := range map[*string]hcl.Expression{&out.Credentials: n.Credentials, &out.CA: n.CA, &out.Certificate: n.Certificate, &out.Key: n.Key} {
		if file := d.optional(e); file != "" {
			*to = d.path(file)
		}
	}
	if (out.Certificate == "") != (out.Key == "") {
		d.fail(n.URLs.Range(), "A certificate needs its key, and a key its certificate", "Write both certificate and key, or neither.")
	}
	if given(n.Replicas) {
		if out.Replicas = d.positive(n.Replicas, "The number of replicas", "Write 1, 3 or 5."); !slices.Contains([]int{0, 1, 3, 5}, out.Replicas) {
			d.fail(n.Replicas.Range(), fmt.Sprintf("%d is not allowed here", out.Replicas), "Write 1, 3 or 5.")
		}
	}
}

func (d *decoder) fleetWorkspaces(f *fleetHCL, out *Fleet) {
	for _, w := range f.Workspaces {
		ws := FleetWorkspace{Name: w.Name, Path: d.path(w.Path), Shared: d.optional(w.Shared)}
		switch {
		case !tool.ValidName(w.Name):
			d.fail(w.At, fmt.Sprintf("%q cannot name a workspace", w.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
			continue
		case slices.ContainsFunc(out.Workspaces, func(o FleetWorkspace) bool { return o.Name == w.Name }):
			d.fail(w.At, fmt.Sprintf("Workspace %q is configured twice", w.Name), "Remove one, or give it another name.")
			continue
		}
		if given(w.Nodes) {
			d.add(gohcl.DecodeExpression(w.Nodes, d.ctx, &ws.Nodes))
		}
		out.Workspaces = append(out.Workspaces, ws)
	}
}

// optional evaluates a string attribute. It returns "" if the attribute is not set.
func (d *decoder) optional(e hcl.Expression) string {
	if !given(e) {
		return ""
	}
	return d.text(e)
}

// address reports a problem if a text does not have the form HOST:PORT.
func (d *decoder) address(e hcl.Expression, text string) {
	if _, port, err := net.SplitHostPort(text); err != nil || port == "" {
		d.fail(e.Range(), fmt.Sprintf("%q is not an address", text), "Write HOST:PORT, such as \"east1:7443\".")
	}
}

// Workspace returns the workspace with the given name, or nil.
func (f *Fleet) Workspace(name string) *FleetWorkspace {
	i := slices.IndexFunc(f.Workspaces, func(w FleetWorkspace) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Workspaces[i]
}

// Here reports whether a node with the given labels has the workspace.
func (w *FleetWorkspace) Here(labels map[string]string) bool {
	for k, v := range w.Nodes {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// SharedDigest returns the SHA-256 of the settings that all nodes of a fleet share. It omits the fleet block, the state
// directory and the directory of the configuration files, because these belong to one node. It does not depend on
// secret values.
func (c *Config) SharedDigest() string {
	tree := c.Tree(TreeOptions{})
	tree.Blocks = slices.DeleteFunc(tree.Blocks, func(n *TreeNode) bool { return n.Type == "fleet" })
	for _, n := range tree.Blocks {
		if n.Type == "host" {
			n.Values = slices.DeleteFunc(n.Values, func(v TreeValue) bool { return v.Name == "state_dir" })
		}
	}
	text := tree.plain()
	if c.dir != "" {
		text = strings.ReplaceAll(text, c.dir+"/", "")
	}
	if c.bundledDir != "" {
		text = strings.ReplaceAll(text, c.bundledDir+"/", "")
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// plain returns the settings of the tree without their origins, in the order of the files.
func (t *Tree) plain() string {
	var b strings.Builder
	var write func(n *TreeNode)
	values := func(all []TreeValue) {
		for i := range all {
			fmt.Fprintf(&b, "%s=%s\n", all[i].Name, all[i].HCL())
		}
	}
	write = func(n *TreeNode) {
		fmt.Fprintf(&b, "%s %q {\n", n.Type, n.Labels)
		values(n.Values)
		for _, inner := range n.Blocks {
			write(inner)
		}
		b.WriteString("}\n")
	}
	values(t.Values)
	for _, n := range t.Blocks {
		write(n)
	}
	return b.String()
}
