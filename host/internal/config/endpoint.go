package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

type endpointHCL struct {
	Name       string         `hcl:"name,label"`
	Tools      hcl.Expression `hcl:"tools,optional"`
	Mode       hcl.Expression `hcl:"mode,optional"`
	Core       hcl.Expression `hcl:"core,optional"`
	Principals hcl.Expression `hcl:"principals,optional"`
	KeepAlive  *bool          `hcl:"keep_alive,optional"`
	At         hcl.Range      `hcl:",def_range"`
}

// Endpoint is a list of tools for MCP clients. An endpoint can restrict the rights of a principal but not extend them.
type Endpoint struct {
	Name string
	// Tools contains globs for full names of tools. A nil list means all tools.
	Tools []string
	// Mode determines which tools are listed: "all", "single", "lazy" or "auto".
	Mode string
	// Core contains the full names of the tools that are listed in the mode "lazy". A nil list means the tools with the
	// roles in [DefaultCore].
	Core []string
	// Principals contains the names of the principals that can use the endpoint. A nil list means all principals.
	Principals []string
	// Silent turns off the signs of life that clients receive while a call produces no output.
	Silent bool
}

// DefaultCore contains the roles of the tools that a lazy endpoint lists if the configuration does not name them.
var DefaultCore = []tool.Role{tool.RoleRead, tool.RoleEdit, tool.RoleSearch}

// Offers reports whether the endpoint contains a tool. The argument is the full name of the tool.
func (e *Endpoint) Offers(name string) bool {
	return e.Tools == nil || matchesName(e.Tools, name)
}

// MayCall reports whether the plugin's own code is allowed to call a tool. The argument is the full name of the tool.
func (p *Plugin) MayCall(name string) bool { return matchesName(p.Calls, name) }

func matchesName(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { ok, err := path.Match(glob, name); return ok && err == nil })
}

// Admits reports whether a principal can use the endpoint. If an issuer authenticated the principal, its name consists
// of the name of the issuer's block, "/" and the subject.
func (e *Endpoint) Admits(principal string) bool {
	block, _, _ := strings.Cut(principal, "/")
	return e.Principals == nil || slices.Contains(e.Principals, principal) || slices.Contains(e.Principals, block)
}

// endpoints reads the endpoint blocks. The caller must read the principals first, because endpoints name them.
func (d *decoder) endpoints(blocks []endpointHCL) {
	known := slices.Clone(ReservedPrincipals[:2])
	for _, p := range d.cfg.Access.Principals {
		known = append(known, p.Name)
	}
	for _, b := range blocks {
		out := Endpoint{Name: b.Name, Tools: d.toolGlobs("endpoint", b.Name, b.Tools), Mode: d.choice(b.Mode, "auto", "all", "single", "lazy", "auto"), Silent: b.KeepAlive != nil && !*b.KeepAlive}
		switch {
		case slices.ContainsFunc(d.cfg.Endpoints, func(e Endpoint) bool { return e.Name == b.Name }):
			d.fail(b.At, fmt.Sprintf("Endpoint %q is configured twice", b.Name), "Remove one, or give it another name.")
			continue
		case !tool.ValidName(b.Name):
			d.fail(b.At, fmt.Sprintf("%q cannot name an endpoint", b.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
			continue
		}
		if given(b.Core) {
			d.keepPosition("core of endpoint", b.Name, b.Core)
			out.Core = append([]string{}, d.texts(b.Core)...)
			for _, name := range out.Core {
				if !out.Offers(name) {
					d.fail(b.Core.Range(), fmt.Sprintf("Endpoint %q does not offer %s", b.Name, name), "A tool in core must match tools, too. Add it there, or remove it from core.")
				}
			}
		}
		if given(b.Principals) {
			out.Principals = append([]string{}, d.texts(b.Principals)...)
			for _, name := range out.Principals {
				if !slices.Contains(known, name) {
					d.fail(b.Principals.Range(), fmt.Sprintf("There is no principal %q", name), "There are %s.%s", strings.Join(known, ", "), suggest.DidYouMean(name, known))
				}
			}
		}
		d.cfg.Endpoints = append(d.cfg.Endpoints, out)
	}
}
