package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// deniedPaths adds to the lists of paths what other settings keep from all tools: the globs of sandbox { deny }, and
// rules that deny paths and nothing else. The sandbox enforces the lists, so that a command cannot use such a path
// under another name.
func (d *decoder) deniedPaths() {
	p := &d.cfg.Permissions
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.List { // its paths are in the lists already
			continue
		}
		p.KeepPaths(r)
		if i := slices.IndexFunc(r.Paths, everything); i >= 0 && len(r.Kinds) == 0 && r.keeps(p) != nil {
			d.tooWide(r.attributes["path"], r.Paths[i])
		}
	}
	for _, g := range d.cfg.Sandbox.Deny {
		if everything(g) {
			d.tooWide(d.denied, g)
		}
	}
	p.denyPaths("sandbox.deny", d.denied, d.cfg.Sandbox.Deny)
}

func (d *decoder) tooWide(at hcl.Range, glob string) {
	d.fail(at, fmt.Sprintf("The glob %q matches every path", glob), "Name the files or directories: \"**/.env\", \"secrets/**\".")
}

// denyPaths adds globs to the paths that no tool can use, and to a rule that answers calls that name such a path.
func (p *Permissions) denyPaths(name string, at hcl.Range, globs []string) {
	globs = slices.DeleteFunc(slices.Clone(globs), func(g string) bool { return slices.Contains(p.Paths.Deny, g) })
	if len(globs) == 0 {
		return
	}
	p.Paths.Deny = append(p.Paths.Deny, globs...)
	p.Rules = append(p.Rules, PermissionRule{
		Effect: "deny", Name: name, Reason: "tools cannot use this path", Paths: globs, List: true, at: at,
		attributes: map[string]hcl.Range{"path": at},
	})
}

// narrowPaths is denyPaths for an untrusted project file, whose rules are kept apart. It ignores globs for everything.
func (p *Permissions) narrowPaths(at hcl.Range, globs []string) {
	var own Permissions
	own.denyPaths("sandbox.deny", at, slices.DeleteFunc(slices.Clone(globs), everything))
	p.Project, p.Paths.Deny = append(p.Project, own.Rules...), append(p.Paths.Deny, own.Paths.Deny...)
}

// KeepPaths adds the paths that a rule keeps from all tools to the lists of paths, which the sandbox enforces.
func (p *Permissions) KeepPaths(r *PermissionRule) {
	if into := r.keeps(p); into != nil {
		*into = append(*into, slices.DeleteFunc(slices.Clone(r.Paths), everything)...)
	}
}

// keeps returns the list of p that a rule extends because it denies paths to all tools, or nil.
func (r *PermissionRule) keeps(p *Permissions) *[]string {
	if r.Effect != "deny" || len(r.Paths) == 0 ||
		len(r.Tools)+len(r.Commands)+len(r.Domains)+len(r.Builtins)+len(r.Traits)+len(r.Starts)+len(r.Set) > 0 {
		return nil
	}
	switch {
	case len(r.Kinds) == 0:
		return &p.Paths.Deny
	case slices.Equal(r.Kinds, []string{"edit"}):
		return &p.Paths.Protect
	}
	return nil
}

// Hides reports whether a rule keeps its paths from all tools, so that no tool can even read them.
func (r *PermissionRule) Hides() bool {
	return r.List || len(r.Kinds) == 0 && r.keeps(new(Permissions)) != nil
}
