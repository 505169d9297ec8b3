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
	// Outward means that other nodes cannot connect to this one.
	Outward bool
	Labels  map[string]string
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
	Workspaces []namedHCL `hcl:"workspace,block"`
	Rest       hcl.Body   `hcl:",remain"`
	At         hcl.Range  `hcl:",def_range"`
}

// fleetTable lists the attributes of the fleet block. They apply when a host starts, so no reload changes them.
var fleetTable = newTable(
	row("name", custom("string", func(f *Fleet) *string { return &f.Name }, func(d *decoder, a *hcl.Attribute,
		to *Fleet) {
		to.Name = cmp.Or(d.text(a.Expr), to.Name)
	}), free, `"toolhost"`, "Name of the fleet."),
	row("node",
		custom("string", func(f *Fleet) *string { return &f.Node }, func(d *decoder, a *hcl.Attribute, to *Fleet) {
			if to.Node = d.text(a.Expr); to.Node == "" {
				return
			}
			if err := nodename.Check(to.Node); err != nil {
				d.fail(a.Expr.Range(), "The node cannot have this name", "%s.", err)
			}
		}), free,
		"(the name of the machine)", "Name of this host in the fleet."),
	row("coordinators", ownList(func(f *Fleet) *[]string { return &f.Coordinators }, (*decoder).coordinators), free, "(the first node)", "Addresses of the coordinators, which keep the records: 1, 3 or 5."),
	row("listen", address(func(f *Fleet) *string { return &f.Listen }), free, `(":7443")`, "Address on which other nodes reach this one."),
	row("advertise", address(func(f *Fleet) *string { return &f.Advertise }), free, "(the name of the machine, and the port of listen)", "Address that other nodes use."),
	row("outward", plain("bool", func(f *Fleet) *bool { return &f.Outward }), free, "false", "Whether this node only opens connections, because the others cannot reach it, such as a laptop or a machine behind NAT. It gets only sessions that name it."),
	row("labels", plain("map(string)", func(f *Fleet) *map[string]string { return &f.Labels }), free, "{}", "Labels of this node, which workspaces select."),
	row("lease", duration(func(f *Fleet) *time.Duration { return &f.Lease }), free, `"15s"`, "Time after which a node that is not heard of loses its shared sessions. At least 12 s, or 2 s with one coordinator."),
	row("takeover", either(func(f *Fleet) *bool { return &f.Manual }, "automatic", "manual"), free, `"automatic"`, "Who decides that a node has ended: automatic after its lease, or manual with toolhost fleet takeover."),
	row("fence", ownList(func(f *Fleet) *[]string { return &f.Fence }, func(d *decoder, a *hcl.Attribute, to *Fleet) {
		if to.Fence = d.texts(a.Expr); len(to.Fence) == 0 {
			d.fail(a.Expr.Range(), "The command is empty", "Name a program and its arguments. It gets the name of the node as its last argument.")
		}
	}), free,
		"(none)", "Command that cuts a node off from shared files, before others take its sessions. It gets the name of the node."),
	nested[Fleet]("nats", "An external NATS cluster with JetStream in place of coordinators, version 2.12 or later."),
	row("nats.urls",
		ownList(func(f *Fleet) *[]string { return &f.NATS }, func(d *decoder, a *hcl.Attribute, to *Fleet) {
			if to.NATS = d.texts(a.Expr); len(to.NATS) == 0 {
				d.fail(a.Expr.Range(), "No server is named", "Write URLs such as [\"tls://nats.example.org:4222\"].")
			}
		}), free,
		"", `Its servers, such as "tls://nats.example.org:4222".`, required),
	row("nats.credentials", file(func(f *Fleet) *string { return &f.Credentials }), free, "(none)", "File with the credentials of this node.", isPath),
	row("nats.ca", file(func(f *Fleet) *string { return &f.CA }), free, "(those of the system)", "File with the certificate of the authority that signed the certificates of the servers.", isPath),
	row("nats.certificate", file(func(f *Fleet) *string { return &f.Certificate }), free, "(none)", "File with a certificate of this node, for servers that ask for one.", isPath),
	row("nats.key", file(func(f *Fleet) *string { return &f.Key }), free, "(none)", "File with the key of the certificate.", isPath),
	row("nats.replicas",
		custom("number", func(f *Fleet) *int { return &f.Replicas }, func(d *decoder, a *hcl.Attribute, to *Fleet) {
			if to.Replicas = d.positive(a.Expr, "The number of replicas",
				"Write 1, 3 or 5."); !slices.Contains([]int{0, 1, 3, 5}, to.Replicas) {
				d.fail(a.Expr.Range(), fmt.Sprintf("%d is not allowed here", to.Replicas), "Write 1, 3 or 5.")
			}
		}), free,
		"3", "Copies of each record."),
	nested[Fleet]("capacity", "How much this node takes. New sessions go to nodes with room."),
	row("capacity.sessions", count(func(f *Fleet) *int { return &f.MaxSessions }, "Write a whole number of at least 1."), free, "(no limit)", "Maximum number of sessions."),
	row("capacity.calls", count(func(f *Fleet) *int { return &f.MaxCalls }, "Write a whole number of at least 1."), free, "(no limit)", "Number of running calls at which the node counts as full."),
)

var fleetWorkspaceTable = newTable(
	row("path", custom("string", func(w *FleetWorkspace) *string { return &w.Path },
		func(d *decoder, a *hcl.Attribute, to *FleetWorkspace) { to.Path = d.path(d.optionalText(a.Expr)) }), free,
		"", "Directory of the workspace on this node.", required, isPath),
	row("shared", custom("string", func(w *FleetWorkspace) *string { return &w.Shared },
		func(d *decoder, a *hcl.Attribute, to *FleetWorkspace) { to.Shared = d.text(a.Expr) }), free,
		"(only on this node)", "Identity of the files, for a directory that several nodes have under the same path. Other nodes can take its sessions."),
	row("nodes", plain("map(string)", func(w *FleetWorkspace) *map[string]string { return &w.Nodes }), free,
		"(all nodes)", "Labels of the nodes that have the workspace."),
)

// MinLease is the shortest lease in a fleet with several coordinators. Their JetStream can need nine seconds to elect a
// leader, and a lease must not end during the election. A single coordinator needs no election, so minLeaseOfOne is
// shorter.
const (
	MinLease      = 12 * time.Second
	minLeaseOfOne = 2 * time.Second
)

// DefaultFleet returns the settings of an empty fleet block.
func DefaultFleet() *Fleet { f := fleetTable.defaults(); return &f }

func (d *decoder) fleet(f *fleetHCL) {
	out := DefaultFleet()
	at := fleetTable.read(d, f.Rest, out)
	if lease, given := at["lease"]; given {
		least, why := MinLease, "the coordinators can need nine seconds to elect a leader, and the leases of all nodes would end meanwhile"
		if len(out.Coordinators) < 2 && out.NATS == nil {
			least, why = minLeaseOfOne, "a slow disk of the coordinator must not end the leases of all nodes"
		}
		if out.Lease < least {
			d.fail(lease, fmt.Sprintf("A lease of %s is too short", out.Lease),
				"Write at least \"%s\": %s.", least, why)
		}
	}
	if out.NATS != nil && out.Coordinators != nil {
		d.fail(f.At, "The fleet has coordinators and an external NATS cluster", "Keep one of them: coordinators, or the nats block.")
	}
	if (out.Certificate == "") != (out.Key == "") {
		d.fail(at["nats.urls"], "A certificate needs its key, and a key its certificate", "Write both certificate and key, or neither.")
	}
	d.fleetWorkspaces(f, out)
	d.cfg.Fleet = out
	if d.cfg.Workspace.Mode != "direct" && len(out.Workspaces) > 0 {
		d.fail(f.At, fmt.Sprintf("Sessions of a fleet cannot work in branches, and workspace { mode = %q } asks for that", d.cfg.Workspace.Mode), "Branches stay on one node. Remove the mode, or the workspaces of the fleet.")
	}
}

func (d *decoder) coordinators(a *hcl.Attribute, to *Fleet) {
	to.Coordinators = d.texts(a.Expr)
	if n := len(to.Coordinators); !slices.Contains([]int{1, 3, 5}, n) {
		d.fail(a.Expr.Range(), fmt.Sprintf("A fleet cannot have %d coordinators", n), "Name 1, 3 or 5 of them. An even number survives no more failures than the odd number below it.")
	}
	for _, text := range to.Coordinators {
		d.address(a.Expr, text)
	}
}

// file returns the path of a file. An empty text is no file.
func file[T any](at func(*T) *string) value[T] {
	return custom("string", at, func(d *decoder, a *hcl.Attribute, to *T) {
		if name := d.text(a.Expr); name != "" {
			*at(to) = d.path(name)
		}
	})
}

// address returns an address of the form HOST:PORT.
func address[T any](at func(*T) *string) value[T] {
	return custom("string", at, func(d *decoder, a *hcl.Attribute, to *T) {
		if *at(to) = d.text(a.Expr); *at(to) != "" {
			d.address(a.Expr, *at(to))
		}
	})
}

func (d *decoder) fleetWorkspaces(f *fleetHCL, out *Fleet) {
	for _, w := range f.Workspaces {
		ws := FleetWorkspace{Name: w.Name}
		fleetWorkspaceTable.read(d, w.Rest, &ws)
		switch {
		case !tool.ValidName(w.Name):
			d.fail(w.At, fmt.Sprintf("%q cannot name a workspace", w.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
			continue
		case slices.ContainsFunc(out.Workspaces, func(o FleetWorkspace) bool { return o.Name == w.Name }):
			d.fail(w.At, fmt.Sprintf("Workspace %q is configured twice", w.Name),
				"Remove one, or give it another name.")
			continue
		}
		out.Workspaces = append(out.Workspaces, ws)
	}
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
