package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/zclconf/go-cty/cty"

	"toolhost.dev/sandbox/hostlist"
)

type confinementHCL struct {
	Enforce hcl.Expression `hcl:"enforce,optional"`
	Roots   hcl.Expression `hcl:"roots,optional"`
	Exec    *bool          `hcl:"exec,optional"`
	Network hcl.Expression `hcl:"network,optional"`
	Git     hcl.Expression `hcl:"git,optional"`
	Read    []string       `hcl:"read,optional"`
	Write   []string       `hcl:"write,optional"`
	Limits  *limitsHCL     `hcl:"limits,block"`
}

type limitsHCL struct {
	Memory    hcl.Expression `hcl:"memory,optional"`
	Processes hcl.Expression `hcl:"processes,optional"`
	Files     hcl.Expression `hcl:"files,optional"`
	FileSize  hcl.Expression `hcl:"file_size,optional"`
	Temporary hcl.Expression `hcl:"temporary,optional"`
	CPU       hcl.Expression `hcl:"cpu,optional"`
	Total     *totalHCL      `hcl:"total,block"`
}

type totalHCL struct {
	Memory    hcl.Expression `hcl:"memory,optional"`
	Processes hcl.Expression `hcl:"processes,optional"`
	CPUs      hcl.Expression `hcl:"cpus,optional"`
}

func (d *decoder) confinement(c *confinementHCL) Confinement {
	out := Confinement{Enforce: d.choice(c.Enforce, "", "auto", "require", "off"), Exec: c.Exec}
	out.Network, out.Hosts = d.network(c.Network)
	if given(c.Roots) {
		access := d.choice(c.Roots, "read-write", "read-only", "read-write", "none")
		write, none := access == "read-write", access == "none"
		out.WriteRoots, out.NoRoots = &write, &none
	}
	out.WriteGit = d.choice(c.Git, "protected", "protected", "read-write") == "read-write"
	for _, p := range c.Read {
		out.Read = append(out.Read, d.path(p))
	}
	for _, p := range c.Write {
		out.Write = append(out.Write, d.path(p))
	}
	if l := c.Limits; l != nil {
		out.Limits = Limits{
			Memory: orUnlimited(d, l.Memory, d.size), FileSize: orUnlimited(d, l.FileSize, d.size), Temporary: orUnlimited(d, l.Temporary, d.size),
			Processes: orUnlimited(d, l.Processes, d.count(1)), Files: orUnlimited(d, l.Files, d.count(leastFiles)), CPU: d.duration(l.CPU),
		}
		if t := l.Total; t != nil {
			out.Limits.Total = Totals{Memory: orUnlimited(d, t.Memory, d.size), Processes: d.count(leastTotal)(t.Processes), CPUs: d.cpus(t.CPUs)}
		}
	}
	return out
}

// network evaluates the attribute "network", which is true, false, or a list of hosts.
func (d *decoder) network(e hcl.Expression) (all *bool, hosts []string) {
	if !given(e) {
		return nil, nil
	}
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

// cpus evaluates a number of processors. It returns 0 if the attribute does not exist.
func (d *decoder) cpus(e hcl.Expression) (n float64) {
	if !given(e) {
		return 0
	}
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

// orUnlimited evaluates a limit that has a default. It returns [Unlimited] if the operator removed the limit. Otherwise
// it returns the result of the function "number".
func orUnlimited(d *decoder, e hcl.Expression, number func(hcl.Expression) uint64) uint64 {
	if given(e) {
		if v, diags := e.Value(d.ctx); !diags.HasErrors() && v.IsWhollyKnown() && !v.IsNull() && v.Type() == cty.String && v.AsString() == unlimited {
			return Unlimited
		}
	}
	return number(e)
}

// count returns a function that evaluates a whole number and checks its minimum. The function returns 0 if the
// attribute is not set.
func (d *decoder) count(least uint64) func(hcl.Expression) uint64 {
	return func(e hcl.Expression) uint64 {
		if !given(e) {
			return 0
		}
		var n uint64
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

// size evaluates a size such as "2GiB" and returns the number of bytes. It returns 0 if the attribute does not exist.
func (d *decoder) size(e hcl.Expression) uint64 {
	if !given(e) {
		return 0
	}
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
