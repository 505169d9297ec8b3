package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/zclconf/go-cty/cty"

	"toolhost.dev/sandbox/hostlist"
)

// confinementTable lists the attributes of the sandbox blocks of plugins and fields. Package privilege compares the
// resulting sandbox profiles, because the profile of a bundled plugin is the default.
var confinementTable = newTable(
	row("enforce", choice(func(c *Confinement) *string { return &c.Enforce }, "auto", "require", "off"), compared, "(that of the sandbox block)", "Enforcement for this plugin: auto, require or off."),
	row("roots", custom("string", func(c *Confinement) **bool { return &c.WriteRoots }, (*decoder).roots), compared,
		"(that of a bundled plugin's manifest, else read-write; for a field without a program, none)", "Access to the roots: read-write, read-only or none."),
	row("git", either(func(c *Confinement) *bool { return &c.WriteGit }, "protected", "read-write"), compared, `"protected"`, "Access to the hooks and settings of repositories in its roots: protected or read-write."),
	row("exec", plain("bool", func(c *Confinement) **bool { return &c.Exec }), compared, "(that of a bundled plugin's manifest, else false; for a field, whether it starts a program)", "Whether it may start programs."),
	row("network", custom("bool or list(string)", func(c *Confinement) **bool { return &c.Network },
		func(d *decoder, a *hcl.Attribute, to *Confinement) {
			to.Network, to.Hosts = d.network(a.Expr)
		}), compared, "(false; for a field, whether it has a url)", `Whether it may reach the network, or a list of the hosts that it may reach, such as "*.github.com:443".`),
	row("read", directories(func(c *Confinement) *[]string { return &c.Read }), compared, "[]", "Further paths that it may read. If it may start programs, it may run the programs there.", isPath),
	row("write", directories(func(c *Confinement) *[]string { return &c.Write }), compared, "[]", "Further paths that it may write.", isPath),
	nested[Confinement]("limits", "Limits for each of its processes."),
	row("limits.memory", limit("size", func(c *Confinement) *uint64 { return &c.Limits.Memory }, (*decoder).size), compared, "(8GiB)", `Maximum memory, such as "4GiB", or "unlimited". A command can raise the default with ulimit -d.`),
	row("limits.processes", limit("number", func(c *Confinement) *uint64 { return &c.Limits.Processes }, count64(1)), compared, "(1024)", `Maximum number of processes and threads together, or "unlimited".`),
	row("limits.files", limit("number", func(c *Confinement) *uint64 { return &c.Limits.Files }, count64(leastFiles)), compared,
		"(1024)", `Maximum number of open files of each process, at least 256, or "unlimited". A command can raise the default to 16384 with ulimit -n.`),
	row("limits.file_size",
		limit("size", func(c *Confinement) *uint64 { return &c.Limits.FileSize }, (*decoder).size), compared,
		"(8GiB)", `Maximum size of a file that it writes, or "unlimited". A command can raise the default with ulimit -f.`),
	row("limits.temporary",
		limit("size", func(c *Confinement) *uint64 { return &c.Limits.Temporary }, (*decoder).size), compared,
		"(2GiB)", `Maximum content of /var/tmp and /dev/shm (backend ns), and of a session's temporary files, or "unlimited".`),
	row("limits.cpu", duration(func(c *Confinement) *time.Duration { return &c.Limits.CPU }), compared, "(none)", "Maximum processor time, in whole seconds."),
	nested[Confinement]("limits.total", "Limits for all of its processes together, enforced by a control group where there is one."),
	row("limits.total.memory",
		limit("size", func(c *Confinement) *uint64 { return &c.Limits.Total.Memory }, (*decoder).size), compared,
		"(three quarters of the machine's)", `Maximum memory, or "unlimited". Without a control group, the host measures it and kills the largest process. The default is only for plugins that start programs.`),
	row("limits.total.processes", amount("number", func(c *Confinement) *uint64 { return &c.Limits.Total.Processes },
		count64(leastTotal)), compared, "(none)", "Maximum number of processes and threads, at least 32."),
	row("limits.total.cpus", custom("number", func(c *Confinement) *float64 { return &c.Limits.Total.CPUs },
		func(d *decoder, a *hcl.Attribute, to *Confinement) {
			to.Limits.Total.CPUs = d.cpus(a.Expr)
		}), compared, "(none)", "Maximum number of processors in use at the same time."),
)

// roots evaluates the access of a plugin to the roots.
func (d *decoder) roots(a *hcl.Attribute, to *Confinement) {
	access := d.choice(a.Expr, "read-write", "read-only", "read-write", "none")
	write, none := access == "read-write", access == "none"
	to.WriteRoots, to.NoRoots = &write, &none
}

// network evaluates the attribute "network", which is true, false, or a list of hosts.
func (d *decoder) network(e hcl.Expression) (all *bool, hosts []string) {
	v, diags := e.Value(d.ctx)
	if diags.HasErrors() {
		d.add(diags)
		return nil, nil
	}
	if t := v.Type(); t.IsTupleType() || t.IsListType() || t.IsSetType() {
		if diags := gohcl.DecodeExpression(e, d.ctx, &hosts); diags.HasErrors() {
			d.add(diags)
			return nil, nil
		}
		if len(hosts) == 0 {
			d.fail(e.Range(), "There is no host in the list", "Name the hosts that the plugin can reach, or write false.")
		}
		for _, h := range hosts {
			if _, err := hostlist.Parse([]string{h}); err != nil {
				d.fail(e.Range(), "An entry of the list of hosts is not valid", "%v.", err)
			}
		}
		return new(bool), hosts
	}
	all = new(bool)
	if diags := gohcl.DecodeExpression(e, d.ctx, all); diags.HasErrors() {
		d.fail(e.Range(), "This is neither true nor false nor a list of hosts", "Write network = [\"proxy.golang.org\", \"*.github.com:443\"], or true for everything.")
		return nil, nil
	}
	return all, nil
}

// leastFiles is the minimum limit for open files. The plugin itself needs some files. For example, the shell uses
// descriptors above 200 to avoid collisions with the descriptors of commands.
const leastFiles = 256

// leastTotal is the minimum limit for threads. The plugin itself needs some threads.
const leastTotal = 32

// cpus evaluates a number of processors.
func (d *decoder) cpus(e hcl.Expression) (n float64) {
	if diags := gohcl.DecodeExpression(e, d.ctx, &n); diags.HasErrors() {
		d.add(diags)
		return 0
	}
	if n < 0.01 || n > 10000 {
		d.fail(e.Range(), fmt.Sprintf("%g is no number of processors", n), "Give one from 0.01 on, such as 1.5, or leave it out for no limit.")
	}
	return n
}

// unlimited is the value of a limit that removes the default.
const unlimited = "unlimited"

// limit returns a limit that has a default, and that the operator can remove.
func limit[T any](kind string, at func(*T) *uint64, decode func(*decoder, hcl.Expression) uint64) value[T] {
	return amount(kind, at, func(d *decoder, e hcl.Expression) uint64 {
		if v, diags := e.Value(d.ctx); !diags.HasErrors() && v.IsWhollyKnown() && !v.IsNull() &&
			v.Type() == cty.String && v.AsString() == unlimited {
			return Unlimited
		}
		return decode(d, e)
	})
}

// count64 returns a function that evaluates a whole number and checks its minimum.
func count64(least uint64) func(*decoder, hcl.Expression) uint64 {
	return func(d *decoder, e hcl.Expression) (n uint64) {
		if diags := gohcl.DecodeExpression(e, d.ctx, &n); diags.HasErrors() {
			d.add(diags)
			return 0
		}
		if n < least {
			d.fail(e.Range(), fmt.Sprintf("The limit %d is too small", n), "Give a number from %d on, or %q for no limit.", least, unlimited)
		}
		return n
	}
}

var units = []struct {
	name  string
	bytes uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// size evaluates a size such as "2GiB" and returns the number of bytes. It returns 0 for an invalid size.
func (d *decoder) size(e hcl.Expression) uint64 {
	var s string
	if diags := gohcl.DecodeExpression(e, d.ctx, &s); diags.HasErrors() {
		d.add(diags)
		return 0
	}
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		if err == nil && n > 0 && n <= math.MaxInt64/u.bytes {
			return n * u.bytes
		}
	}
	d.fail(e.Range(), fmt.Sprintf("%q is not a size", s), "Write a whole number with a unit: \"512MiB\", \"4GiB\".")
	return 0
}
